"""Following a training to its end, and taking it up where it stopped.

The program that is followed here is a small one that prints and saves as LeRobot's does.
"""

import json
import sys
from pathlib import Path

import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.records import CheckpointContract, ExpertDemos, TrainRequest, decode
from lefleet.stages import Update, run_stage
from lefleet.stages import train as train_module
from lefleet.stages.lerobot_train import Invocation
from lefleet.stages.train import last_checkpoint
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
    if str(step) == die:
        sys.exit("RuntimeError: the battery is empty")
"""


@pytest.fixture
def lerobot(tmp_path, monkeypatch, any_program) -> dict[str, str]:
    """The small program in LeRobot's place; `die` is the step at which it fails."""
    script = tmp_path / "program.py"
    script.write_text(PROGRAM)
    knobs = {"die": "never", "losses": "{}"}

    def command(output: Path, start: int, steps: int) -> Invocation:
        argv = (sys.executable, str(script), str(output), str(start), str(steps), knobs["die"])
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
    features = {"action": vector, "observation.state": vector}
    info = {"fps": 80, "total_episodes": 3, "features": features}
    (data / "meta" / "info.json").write_text(json.dumps(info))
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
    wrong = TrainRequest(dataset=request_.dataset, tasks=("push", "reach"))
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
