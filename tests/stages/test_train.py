"""Following a training to its end, and taking it up where it stopped.

The program that is followed here is a small one that prints and saves as LeRobot's does.
"""

import json
import sys
from pathlib import Path

import msgspec
import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.records import CheckpointContract, ExpertDemos, TrainRequest, decode
from lefleet.stages import Update, run_stage, silent
from lefleet.stages import train as train_module
from lefleet.stages.folder import StageFolder
from lefleet.stages.lerobot_train import Invocation
from lefleet.stages.train import last_checkpoint
from lefleet.stages.wandb_guard import WandbGuard
from tests.devices import needs_no_gpu
from tests.samples import dataset_record, finished_stage

PROGRAM = """
import json, os, signal, sys
from pathlib import Path
output, start, steps, die = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
losses = json.loads(os.environ.get("LOSSES", "{}"))
print("started from", start)
for step in range(start + 1, steps + 1):
    print(f"\\rTraining:  1%|#  | {step - start}/{steps - start} [00:01<00:02, 9step/s]", end="\\r")
    if step % 10 == 0:
        loss = losses.get(str(step), 1 / step)
        print(f"INFO now x.py:1 step:{step} smpl:3K loss:{loss} grdn:1.0 lr:1e-3 updt_s:0.1")
    if step % 20 == 0:
        folder = output / "checkpoints" / f"{step:06d}"
        (folder / "pretrained_model").mkdir(parents=True)
        (folder / "training_state").mkdir()
        (folder / "pretrained_model" / "config.json").write_text('{"type": "act"}')
        (folder / "training_state" / "training_step.json").write_text(json.dumps({"step": step}))
        last = output / "checkpoints" / "last"
        last.unlink(missing_ok=True)
        last.symlink_to(folder.name)
    if str(step) == die and "--wandb.enable=false" not in sys.argv:
        sys.exit(sys.argv[5])
"""


@pytest.fixture
def lerobot(tmp_path, monkeypatch, any_program) -> dict[str, str]:
    """The small program in LeRobot's place; `die` is the step at which it fails."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    knobs = {"die": "never", "losses": "{}", "reason": "RuntimeError: the battery is empty"}

    def command(output: Path, start: int, steps: int) -> Invocation:
        argv = (sys.executable, str(script), str(output), str(start), str(steps), knobs["die"])
        argv = (*argv, knobs["reason"])
        return Invocation(argv, {"LOSSES": knobs["losses"]})

    def start_command(request, dataset, output, **how) -> Invocation:
        return command(output, 0, request.steps)

    def resume_command(request, checkpoint, **how) -> Invocation:
        return command(checkpoint.parents[1], int(checkpoint.name), request.steps)

    monkeypatch.setattr(train_module, "start_command", start_command)
    monkeypatch.setattr(train_module, "resume_command", resume_command)
    return knobs


@pytest.fixture
def request_(tmp_path) -> TrainRequest:
    data = tmp_path / "data"
    (data / "meta").mkdir(parents=True)
    vector = {"dtype": "float32", "shape": [2], "names": ["x", "y"]}
    features = dict.fromkeys(("action", "observation.state"), vector)
    features["observation.environment_state"] = vector
    info = {"fps": 80, "total_episodes": 3, "features": features}
    (data / "meta" / "info.json").write_text(json.dumps(info))
    spread = {"min": [0, 0], "max": [9, 9], "mean": [3, 3], "std": [2, 2]}
    (data / "meta" / "stats.json").write_text(json.dumps(dict.fromkeys(features, spread)))
    demos = finished_stage(tmp_path / "demos", ExpertDemos(), dataset_record(root=str(data)))
    return TrainRequest(dataset=str(demos), steps=40, log_every=10)


def test_a_training_that_ends_well_has_its_loss_curve_and_its_last_checkpoint(
    lerobot, request_, tmp_path
):
    record = run_stage(request_, tmp_path / "train")
    curve = [(point.step, point.loss) for point in record.curve]
    assert curve == [(10, 0.1), (20, 0.05), (30, 1 / 30), (40, 0.025)]
    assert (record.steps, record.final_loss, record.resumed_at) == (40, 0.025, ())
    assert record.path.endswith("checkpoints/000040/pretrained_model")


def test_progress_names_what_cannot_be_counted_then_counts_steps(lerobot, request_, tmp_path):
    updates = []
    run_stage(request_, tmp_path / "train", updates.append)
    digesting, loading, *counted, last = updates
    assert [one.detail for one in (digesting, loading, last)] == [
        "computing digests",
        "loading LeRobot",
        "computing digests",
    ]
    assert [update.done for update in counted] == list(range(1, 41))
    assert counted[19] == Update(20, 40, "steps", "loss 0.1")


def test_the_contract_lies_beside_the_weights(lerobot, request_, tmp_path):
    record = run_stage(request_, tmp_path / "train")
    beside = (Path(record.path) / "lefleet.json").read_bytes()
    assert decode(beside, CheckpointContract, "lefleet.json") == record.contract
    assert record.contract.action_names == ("x", "y")


def test_a_training_that_fails_says_why_and_where_its_log_is(lerobot, request_, tmp_path):
    lerobot["die"] = "25"
    with pytest.raises(StageFailed, match=r"exited with code 1: .*the battery is empty") as caught:
        run_stage(request_, tmp_path / "train")
    assert str(tmp_path / "train" / "log.txt") in str(caught.value)


def test_a_training_goes_on_from_its_last_checkpoint(lerobot, request_, tmp_path):
    lerobot["die"] = "35"
    with pytest.raises(StageFailed):
        run_stage(request_, tmp_path / "train")
    lerobot["die"] = "never"
    updates = []
    record = run_stage(request_, tmp_path / "train", updates.append)
    assert [point.step for point in record.curve] == [10, 20, 30, 40]
    assert record.resumed_at == (20,)
    assert "started from 20" in (tmp_path / "train" / "log.txt").read_text()
    counted = [update.done for update in updates if update.total]
    assert (counted[0], counted[-1]) == (21, 40)


def test_a_training_that_saved_nothing_begins_again(lerobot, request_, tmp_path):
    lerobot["die"] = "15"
    with pytest.raises(StageFailed):
        run_stage(request_, tmp_path / "train")
    lerobot["die"] = "never"
    record = run_stage(request_, tmp_path / "train")
    assert [point.step for point in record.curve] == [10, 20, 30, 40]


def test_a_loss_that_is_no_number_at_the_end_is_a_failure(lerobot, request_, tmp_path):
    lerobot["losses"] = '{"40": "nan"}'
    with pytest.raises(StageFailed, match="diverged"):
        run_stage(request_, tmp_path / "train")


def test_data_without_the_tasks_to_evaluate_is_refused_before_anything_starts(request_, tmp_path):
    wrong = TrainRequest(dataset=request_.dataset, tasks=("open the door", "reach"))
    with pytest.raises(BadInput, match="no episode of reach"):
        run_stage(wrong, tmp_path / "train")
    assert not (tmp_path / "train").exists()


def test_a_rename_map_without_a_checkpoint_is_refused(request_, tmp_path):
    wrong = TrainRequest(dataset=request_.dataset, rename_map={"a": "b"})
    with pytest.raises(BadInput, match=r"^rename_map: "):
        run_stage(wrong, tmp_path / "train")


def checkpoints(output: Path, *names: str) -> Path:
    for name in names:
        (output / "checkpoints" / name).mkdir(parents=True)
    return output / "checkpoints"


def test_the_link_names_the_last_checkpoint(tmp_path):
    folder = checkpoints(tmp_path, "000100", "000200", "000300")
    (folder / "last").symlink_to("000200")
    assert last_checkpoint(tmp_path) == folder / "000200"


def test_without_the_link_the_newest_of_several_may_be_incomplete(tmp_path):
    folder = checkpoints(tmp_path, "000100", "000200")
    assert last_checkpoint(tmp_path) == folder / "000100"


@pytest.mark.parametrize("names", [(), ("000100",)])
def test_without_the_link_a_single_checkpoint_does_not_count(tmp_path, names):
    checkpoints(tmp_path, *names)
    assert not last_checkpoint(tmp_path).exists()


@pytest.mark.parametrize(
    "flag", ["--steps=4", "--output_dir=x", "--dataset.root=/y", "--resume=true"]
)
def test_a_flag_that_a_field_stands_for_is_refused_naming_the_field(request_, tmp_path, flag):
    wrong = TrainRequest(dataset=request_.dataset, extra_args=(flag,))
    with pytest.raises(BadInput, match="is set by the field"):
        run_stage(wrong, tmp_path / "train")


def test_a_path_that_lerobot_would_misread_is_refused(request_, tmp_path):
    with pytest.raises(BadInput, match="cannot read the path"):
        run_stage(request_, tmp_path / "run #1")


def test_data_that_changed_between_two_attempts_is_refused(lerobot, request_, tmp_path):
    lerobot["die"] = "25"
    with pytest.raises(StageFailed):
        run_stage(request_, tmp_path / "train")
    demos = Path(request_.dataset) / "record.json"
    demos.write_text(demos.read_text().replace("d" * 64, "f" * 64))
    with pytest.raises(StageFailed, match="dataset: its content has changed"):
        run_stage(request_, tmp_path / "train")


@needs_no_gpu
def test_lerobot_does_not_train_on_the_cpu_where_it_was_told_to_use_a_gpu(
    tmp_path, demos, any_program
):
    request = TrainRequest(dataset=str(demos), steps=2, device="cuda")
    with (
        StageFolder(tmp_path / "train", request) as stage,
        pytest.raises(StageFailed, match="LeRobot finds no cuda and would train on cpu"),
    ):
        train_module.train(request, stage, silent)
    assert not (tmp_path / "train" / "training" / "checkpoints").exists()


def test_the_normalisation_is_recorded_with_its_reason(lerobot, request_, tmp_path):
    record = run_stage(request_, tmp_path / "train")
    assert record.normalisation is not None
    assert record.normalisation.mapping["STATE"] == "MEAN_STD"
    sentence = record.normalisation.sentence()
    assert "with the statistics of the dataset" in sentence
    assert sentence in (tmp_path / "train" / "log.txt").read_text()


def test_the_recorded_normalisation_is_the_checkpoint_s(lerobot, request_, tmp_path):
    """Another version may have begun the training."""
    lerobot["die"] = "25"
    with pytest.raises(StageFailed):
        run_stage(request_, tmp_path / "train")
    lerobot["die"] = "never"
    program = tmp_path / "program.py"
    theirs = '{"type": "act", "normalization_mapping": {"STATE": "IDENTITY"}}'
    program.write_text(program.read_text().replace('{"type": "act"}', theirs))
    record = run_stage(request_, tmp_path / "train")
    assert record.normalisation.mapping == {"STATE": "IDENTITY"}
    assert record.normalisation.reason == "that with which the training began"


def test_data_that_cannot_work_is_refused_before_anything_starts(request_, tmp_path):
    stats = tmp_path / "data" / "meta" / "stats.json"
    stats.write_text(stats.read_text().replace("9", "NaN"))
    with pytest.raises(BadInput, match=r"^dataset: action: x, y holds values that are not finite"):
        run_stage(request_, tmp_path / "train")
    assert not (tmp_path / "train").exists()


def test_a_family_that_does_not_exist_is_refused_before_anything_starts(request_, tmp_path):
    wrong = TrainRequest(dataset=request_.dataset, policy_type="nonsense")
    with pytest.raises(BadInput, match=r"^policy_type: .*nonsense"):
        run_stage(wrong, tmp_path / "train")
    assert not (tmp_path / "train").exists()


def test_a_training_that_wandb_fails_goes_on_without_it_and_says_so(lerobot, request_, tmp_path):
    lerobot["die"] = "25"
    lerobot["reason"] = "wandb.errors.CommError: no service"
    record = run_stage(msgspec.structs.replace(request_, wandb=True), tmp_path / "train")
    assert (record.steps, record.resumed_at) == (40, (20,))
    assert record.wandb_problem.startswith("W&B failed: Training exited with code 1: ")
    assert "CommError: no service" in record.wandb_problem


def test_what_fails_a_training_for_another_reason_fails_it_with_wandb_too(
    lerobot, request_, tmp_path
):
    lerobot["die"] = "25"
    with pytest.raises(StageFailed, match="the battery is empty"):
        run_stage(msgspec.structs.replace(request_, wandb=True), tmp_path / "train")


def test_after_two_attempts_with_wandb_that_got_no_further_there_is_one_without(tmp_path):
    """As where W&B hangs, and each attempt is stopped for it."""
    guard = WandbGuard(tmp_path, is_wanted=True)
    assert [guard.begin(step) for step in (0, 20, 20, 20, 20)] == [True, True, True, False, False]
    assert guard.problem == "2 attempts with W&B got no further than step 20"
    assert not WandbGuard(tmp_path / "other", is_wanted=False).begin(0)
