"""Why nothing works: each aspect judged from what was measured, and the page that says it."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from lefleet.ledger import Ledger, RunRow, open_ledger
from lefleet.loop.decide import make_decision
from lefleet.loop.diagnosis import PAGE, diagnose, diagnosis_findings, write_diagnosis
from lefleet.loop.diagnosis.measurements import (
    Column,
    Measurements,
    PolicyFacts,
    RecordedActions,
    TaskData,
    measure,
)
from lefleet.loop.diagnosis.page import judge, page_lines
from lefleet.process import child_environment
from lefleet.records import (
    DatasetSource,
    EvaluatePlan,
    EvaluateRequest,
    ExpertDemos,
    PolicyResult,
    Rate,
    Rung,
)
from lefleet.stages import run_stage
from lefleet.stages.folder import read_record
from tests.loop.states import config, cycle, decision, result, state
from tests.samples import evaluation_record

PUSH, DOOR = "push the puck to the goal", "open the door"
ASPECTS = {"coverage", "loss", "action range", "horizon", "normalisation"}


def column(
    name: str = "x", low: float = -1.0, high: float = 1.0, std: float = 0.5, **more
) -> Column:
    return Column(name, low, high, more.pop("mean", (low + high) / 2), std, **more)


def rate(successes: int = 0, episodes: int = 20) -> Rate:
    share = successes / episodes
    return Rate(successes=successes, episodes=episodes, rate=share, interval=(0.0, 0.2))


STATE, ENV, ACTION = "observation.state", "observation.environment_state", "action"
ACTIONS = (column("dx"), column("dy"))
SOUND = Measurements(
    data={PUSH: TaskData(20, (60,) * 20, 20)},
    texts={"push": PUSH},
    evaluated=("push",),
    limits={"push": 150},
    result=PolicyResult(
        checkpoint="c",
        digest="c",
        overall=rate(),
        per_task={"push": rate()},
        mean_progress=0.1,
        mean_length=150.0,
    ),
    frames=1200,
    fps=80,
    vectors={ACTION: ACTIONS, STATE: (column("hand", -2.0, 2.0),)},
    action_range=(-1.0, 1.0),
    actions=RecordedActions(ACTIONS, at_limit=0.3, constant_error=0.4, is_all=True),
    policy=PolicyFacts(
        chunk_size=10,
        n_action_steps=5,
        kinds={STATE: "STATE", ACTION: "ACTION"},
        modes={"STATE": "IDENTITY", "ACTION": "IDENTITY"},
        saved={},
        has_plain_error=True,
    ),
    policy_type="act",
    is_fresh=True,
    steps=1000,
    batch_size=64,
    losses=(0.5, 0.2, 0.1, 0.06, 0.05, 0.05, 0.05, 0.05, 0.05, 0.05),
)


def policy(**changes) -> PolicyFacts:
    return SOUND.policy._replace(**changes)


def actions(*columns: Column, **changes) -> dict:
    """Frames and statistics that agree."""
    recorded = SOUND.actions._replace(columns=columns, **changes)
    return {"actions": recorded, "vectors": {**SOUND.vectors, ACTION: columns}}


def test_where_all_is_in_order_every_aspect_is_and_says_what_was_measured():
    found = judge(SOUND)
    assert {one.aspect: one.verdict for one in found} == dict.fromkeys(ASPECTS, "ok")
    assert {one.aspect: one.measured for one in found} == {
        "coverage": "20 demonstrations of push the puck to the goal",
        "loss": "0.5 → 0.05; 1000 steps saw each frame 53 times",
        "action range": "-1 to 1, smallest spread of a column 0.5",
        "horizon": "demonstrations take 60 steps (0.8 s), episodes end after 150",
        "normalisation": "action IDENTITY, observation.state IDENTITY: numbers are around one",
    }
    assert all(not one.remedy and not one.weight for one in found)


MEAN_STD = {"STATE": "MEAN_STD", "ACTION": "MEAN_STD"}
CAUSES = [
    pytest.param(
        {"data": {DOOR: TaskData(20, (60,) * 20, 20)}},
        "coverage",
        "the data has no demonstration of push, which is evaluated; it has open the door",
        id="the evaluated task is not in the data",
    ),
    pytest.param(
        {"data": {PUSH: TaskData(1, (60,), 1)}},
        "coverage",
        "1 demonstration of push the puck to the goal; fewer than 10 are seldom enough",
        id="one demonstration",
    ),
    pytest.param(
        {"policy_type": "smolvla"}, "coverage", "fewer than 50", id="too few for a large policy"
    ),
    pytest.param(
        {"data": {PUSH: TaskData(20, (60,) * 20, 1)}},
        "coverage",
        "all demonstrations of push the puck to the goal begin in the same state",
        id="one initial state",
    ),
    pytest.param(
        {"steps": 5, "losses": (0.4,)},
        "loss",
        "hardly trained: 5 steps saw each frame 0.27 times; the loss was 0.4",
        id="five steps",
    ),
    pytest.param(
        {"frames": 100_000},
        "loss",
        "hardly trained: 1000 steps saw each frame 0.64 times",
        id="fewer steps than the data needs",
    ),
    pytest.param(
        {"losses": (0.5, 0.34, 0.34, 0.34, 0.34)},
        "loss",
        "it stopped at 0.34, 15% below that of a policy that always does the same (0.4)",
        id="nothing learned",
    ),
    pytest.param(
        {
            "losses": (1.2, 0.75, 0.75, 0.75, 0.75),
            "policy": policy(modes={"STATE": "IDENTITY", "ACTION": "MEAN_STD"}),
        },
        "loss",
        "it stopped at 0.75, 6% below that of a policy that always does the same (0.8)",
        id="nothing learned of normalised actions",
    ),
    pytest.param(
        {"losses": (0.5, 0.45, 0.4, 0.35, 0.3, 0.25)},
        "loss",
        "it is at 0.25, 38% below that of a policy that always does the same (0.4)",
        id="not enough learned yet",
    ),
    pytest.param(
        {"losses": (0.5, None, 0.1, 0.05)},
        "loss",
        "1 of 4 logged losses are not a number",
        id="not a number",
    ),
    pytest.param(
        {"losses": (0.5, 0.1, 0.02, 0.02, 0.15)},
        "loss",
        "it rose again: 0.02 at its lowest, 0.15 at the end",
        id="the loss rose again",
    ),
    pytest.param(
        {"losses": (0.5, 0.4, 0.3, 0.2, 0.1)},
        "loss",
        "it was still falling at the end: 0.2 → 0.1 over the last fifth",
        id="still falling",
    ),
    pytest.param(
        actions(column("dx", 0.0, 0.0, 0.0), column("dy")),
        "action range",
        "1 of 2 action columns never change (dx = 0)",
        id="a column of zeros",
    ),
    pytest.param(
        actions(column("dx", 0.999, 1.0, 1e-5), column("dy")),
        "action range",
        "1 of 2 action columns never change (dx = 1)",
        id="a column that hardly changes",
    ),
    pytest.param(
        actions(column("dx", -1e-6, 1e-6, 4e-7), *ACTIONS),
        "action range",
        "1 of 3 action columns never change (dx = 0)",
        id="a column of noise",
    ),
    pytest.param(
        actions(column("dx", -100.0, 100.0, 50.0), column("dy"), constant_error=40.0),
        "action range",
        "dx goes from -100 to 100, and the environment clips actions to -1 to 1",
        id="another unit",
    ),
    pytest.param(
        actions(column("dx", -0.02, 0.02, 0.01), column("dy", -0.01, 0.01, 0.01)),
        "action range",
        "no action is larger than 0.02, of a range up to 1",
        id="tiny actions",
    ),
    pytest.param(
        actions(*ACTIONS, at_limit=0.95),
        "action range",
        "95% of all action values are at the end of their range",
        id="clipped actions",
    ),
    pytest.param(
        {"limits": {"push": 30}},
        "horizon",
        "demonstrations of push take 60 steps, and an episode ends after 30",
        id="episodes shorter than demonstrations",
    ),
    pytest.param(
        {"policy": policy(chunk_size=100, n_action_steps=100)},
        "horizon",
        "100 actions (1.2 s) are executed before the policy looks again, and a demonstration has "
        "60 steps",
        id="one look per episode",
    ),
    pytest.param(
        {"policy": policy(chunk_size=100)},
        "horizon",
        "a chunk has 100 steps, and a demonstration 60",
        id="a chunk longer than a demonstration",
    ),
    pytest.param(
        {"vectors": {ACTION: ACTIONS, STATE: (column("hand", -900.0, 700.0, 200.0),)}},
        "normalisation",
        "observation.state is not normalised, and hand goes from -900 to 700",
        id="large numbers that are not normalised",
    ),
    pytest.param(
        {
            "vectors": {
                ACTION: ACTIONS,
                STATE: (column("hand"), column("arm"), column("base", 0.1, 0.1001, 1e-5)),
            },
            "policy": policy(modes=MEAN_STD),
        },
        "normalisation",
        "MEAN_STD divides 1 of 3 columns of observation.state by almost nothing: base by 1e-05, "
        "and others by 0.5",
        id="divided by almost nothing",
    ),
    pytest.param(
        {
            "vectors": {
                ACTION: ACTIONS,
                STATE: (column("hand", q01=-0.9, q99=0.9), column("goal", q01=0.1, q99=0.1)),
            },
            "policy": policy(modes={"STATE": "QUANTILES", "ACTION": "IDENTITY"}),
        },
        "normalisation",
        "QUANTILES divides 1 of 2 columns of observation.state by almost nothing: goal by 0",
        id="quantiles of almost nothing",
    ),
    pytest.param(
        {"policy": policy(modes=MEAN_STD, saved={STATE: (column("hand", 90.0, 110.0, 5.0),)})},
        "normalisation",
        "the checkpoint takes hand for 100 ± 5, and in the data it is 0 ± 0.5",
        id="statistics of other data",
    ),
    pytest.param(
        {"vectors": {ACTION: (column("dx", -9.0, 9.0, 4.0), column("dy"))}},
        "normalisation",
        "meta/stats.json says -9 to 9 for dx, its spread 4; the frames say -1 to 1, 0.5",
        id="statistics that are out of date",
    ),
]


@pytest.mark.parametrize(("changes", "aspect", "measured"), CAUSES)
def test_a_cause_is_named_first_with_its_numbers_and_a_remedy(changes, aspect, measured):
    found = judge(SOUND._replace(**changes))
    assert (found[0].aspect, found[0].verdict) == (aspect, "suspicious")
    assert measured in found[0].measured
    assert found[0].remedy
    assert {one.aspect for one in found} == ASPECTS


@pytest.mark.parametrize(
    ("changes", "first"),
    [
        ({"steps": 5, "losses": (0.4,), **actions(column("dx", 0.0, 0.0, 0.0))}, "loss"),
        ({"steps": 5, "losses": (0.4,), "data": {DOOR: TaskData(20)}}, "coverage"),
        ({"limits": {"push": 30}, "data": {PUSH: TaskData(2, (60, 60), 2)}}, "horizon"),
        (
            {
                "data": {PUSH: TaskData(2, (60, 60), 2)},
                **actions(column("dx", 0.0, 0.0, 0.0), column("dy")),
            },
            "action range",
        ),
    ],
)
def test_what_makes_success_impossible_comes_before_what_makes_it_less_likely(changes, first):
    assert judge(SOUND._replace(**changes))[0].aspect == first


def test_actions_in_a_small_unit_are_not_taken_for_constant():
    small = (column("dx", -8e-4, 8e-4, 3e-4), column("dy", -8e-4, 8e-4, 3e-4))
    normalised = policy(modes={"STATE": "IDENTITY", "ACTION": "MEAN_STD"})
    found = judge(SOUND._replace(**actions(*small), action_range=None, policy=normalised))
    assert {one.verdict for one in found if one.aspect == "action range"} == {"ok"}


def test_some_missing_tasks_explain_less_than_all_of_them():
    two = {"texts": {"push": PUSH, "door-open": DOOR}, "evaluated": ("push", "door-open")}
    some = judge(SOUND._replace(**two))[0]
    none = judge(SOUND._replace(data={"wave": TaskData(20)}, **two))[0]
    assert some.measured.startswith("the data has no demonstration of door-open, which")
    assert some.weight < none.weight


def test_a_policy_that_was_trained_before_needs_few_steps():
    found = judge(SOUND._replace(steps=5, is_fresh=False))
    assert {one.verdict for one in found} == {"ok"}


def test_what_is_not_known_is_said_and_blames_nothing():
    nothing = SOUND._replace(
        texts={},
        limits={},
        vectors={},
        actions=None,
        action_range=None,
        policy=PolicyFacts(),
        losses=(),
    )
    found = judge(nothing)
    assert {one.aspect: one.verdict for one in found} == dict.fromkeys(ASPECTS, "unknown")
    assert all(one.remedy and not one.weight for one in found)


def test_columns_that_no_task_uses_are_no_cause_by_themselves():
    """Of the one-hot of fifty tasks, most columns are always 0."""
    vectors = {ACTION: ACTIONS, STATE: (column("hand"), column("task_other", 0.0, 0.0, 0.0))}
    found = judge(SOUND._replace(vectors=vectors, policy=policy(modes=MEAN_STD)))
    assert {one.verdict for one in found} == {"ok"}


# Files


def cycle_of(demos: Path, trained: Path, successes: int = 0, tasks=("push",), **changes):
    """A cycle with real data and a real checkpoint that has failed."""
    evaluation = evaluation_record(
        result=msgspec.structs.replace(
            result(successes, episodes=20), per_task={task: rate(successes) for task in tasks}
        )
    )
    records = {
        "collect": read_record(demos),
        "train": read_record(trained),
        "evaluate": evaluation,
    }
    return replace(cycle(0), records={**records, **changes})


@pytest.fixture
def untouched(demos, weak, tmp_path):
    """Copies of the shared dataset and checkpoint, to be broken."""
    collect, train = tmp_path / "collect", tmp_path / "train"
    shutil.copytree(demos, collect)
    shutil.copytree(weak, train, symlinks=True)
    data = msgspec.structs.replace(read_record(collect), root=str(collect / "dataset"))
    made = read_record(train)
    path = train.joinpath(*Path(made.path).parts[-4:])
    checkpoint = msgspec.structs.replace(made, path=str(path))
    return cycle_of(collect, train, collect=data, train=checkpoint)


def test_a_checkpoint_that_was_hardly_trained_is_told_from_its_files(demos, weak):
    broken = cycle_of(demos, weak, tasks=("push", "pick-place", "door-open"))
    found = diagnosis_findings(state(broken), broken)
    assert found[0].measured.startswith("hardly trained: 20 steps saw each frame ")
    measured = {one.aspect: one for one in found}
    assert measured["coverage"].measured.startswith("5 demonstrations of push the puck")
    assert measured["action range"].measured.startswith("-1 to 1, smallest spread of a column 0.")
    assert measured["horizon"].verdict == "ok"
    assert measured["normalisation"].verdict == "ok"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("trained", "task", "limit", "cause"),
    [
        ("weak", "push", 0, "loss: hardly trained: 20 steps saw each frame "),
        ("checkpoint", "drawer-open", 0, "coverage: the data has no demonstration of drawer-open"),
        ("checkpoint", "push", 25, "horizon: demonstrations of push take "),
    ],
)
def test_a_policy_that_really_fails_is_explained_by_what_was_done_to_it(
    request, demos, tmp_path, trained, task, limit, cause
):
    """Hardly trained; asked for another task; cut off before a demonstration would be over."""
    folder = request.getfixturevalue(trained)
    asked = EvaluateRequest(
        checkpoint=str(folder),
        tasks=(task,),
        episodes_per_task=3,
        videos_per_task=0,
        episode_length=limit,
    )
    failed = run_stage(asked, tmp_path / "evaluate")
    assert failed.result.overall.successes == 0
    env = {"type": "lefleet_metaworld", "episode_length": str(limit)} if limit else {}
    of = cycle_of(demos, folder, evaluate=failed)
    run = state(of, of=config(tasks=(task,), evaluate=EvaluatePlan(env=env)))
    assert make_decision(run, 0).diagnosis[0].startswith(cause)


def test_files_tell_lengths_beginnings_and_what_the_checkpoint_does(demos, weak):
    of = cycle_of(demos, weak)
    measured = measure(state(of), of)
    lengths = [length for one in measured.data.values() for length in one.lengths]
    assert sum(lengths) == measured.frames
    assert {one.starts for one in measured.data.values()} == {5}
    assert measured.limits == {"push": 150}
    assert measured.actions.is_all
    assert (measured.policy.chunk_size, measured.policy.n_action_steps) == (10, 5)
    assert measured.policy.modes["ENV"] == "IDENTITY"
    said, real = measured.vectors[ACTION], measured.actions.columns
    assert [one.name for one in said] == [one.name for one in real]
    assert [one.std for one in said] == pytest.approx([one.std for one in real], rel=0.01)
    saved = measured.policy.saved[ACTION]
    assert [one.mean for one in saved] == pytest.approx([one.mean for one in said], rel=1e-3)


def test_an_action_column_of_zeros_is_found_in_the_frames(untouched):
    import pyarrow as pa
    import pyarrow.parquet as pq

    (file,) = (Path(untouched.dataset().root) / "data").rglob("*.parquet")
    table = pq.read_table(file)
    values = [[0.0, *rest] for _, *rest in table.column(ACTION).to_pylist()]
    number, field = table.schema.get_field_index(ACTION), table.schema.field(ACTION)
    pq.write_table(table.set_column(number, field, pa.array(values, field.type)), file)
    found = {one.measured for one in diagnosis_findings(state(untouched), untouched)}
    assert "1 of 4 action columns never change (hand_x.vel = 0)" in found
    assert any(text.startswith("meta/stats.json says -1 to 1 for hand_x.vel") for text in found)


@pytest.mark.parametrize("damage", ["gone", "empty", "other"])
@pytest.mark.parametrize(
    "pattern",
    [
        "collect/dataset/meta/stats.json",
        "collect/dataset/meta/episodes/**/*.parquet",
        "collect/dataset/data/**/*.parquet",
        "train/training/checkpoints/last/pretrained_model/config.json",
        "train/training/checkpoints/last/pretrained_model/policy_preprocessor.json",
        "train/training/checkpoints/last/pretrained_model/*.safetensors",
    ],
)
def test_a_file_that_is_missing_or_broken_leaves_its_part_unknown(
    untouched, tmp_path, pattern, damage
):
    files = list(tmp_path.glob(pattern))
    assert files
    for file in files:
        if damage == "gone":
            file.unlink()
        else:
            file.write_bytes(b"" if damage == "empty" else b'{"a": [1, "x", null]}')
    found = diagnosis_findings(state(untouched), untouched)
    assert {one.aspect for one in found} == ASPECTS
    assert found[0].measured.startswith("hardly trained")


def test_reading_the_files_starts_no_thread_and_no_torch(demos, weak):
    """A controller with a second thread could not be forked any more."""
    code = f"""
import os, sys
from pathlib import Path
from tests.loop.test_diagnosis import cycle_of, diagnose, state
before = len(os.listdir("/proc/self/task"))
of = cycle_of(Path({str(demos)!r}), Path({str(weak)!r}))
assert len(diagnose(state(of), of)) == 2
print(len(os.listdir("/proc/self/task")) - before, "torch" in sys.modules)
"""
    argv = [sys.executable, "-c", code]
    child = subprocess.run(
        argv, env=child_environment(), capture_output=True, text=True, check=True
    )
    assert child.stdout.split() == ["0", "False"], child.stderr


def test_remarks_of_a_decision_name_what_is_not_in_order_the_likely_cause_first(demos, weak):
    of = cycle_of(demos, weak)
    made = make_decision(state(of), 0)
    assert (made.decision, made.blessed) == ("iterate", "")
    assert [line.partition(":")[0] for line in made.diagnosis] == ["loss", "coverage"]


def test_where_all_is_in_order_the_remarks_say_what_was_measured(demos, weak):
    of = cycle_of(demos, weak)
    data = msgspec.structs.replace(of.dataset(), tasks=dict.fromkeys(of.dataset().tasks, 20))
    trained = msgspec.structs.replace(of.checkpoint(), init_digest="b" * 64)
    of = cycle_of(demos, weak, collect=data, train=trained)
    assert {line.partition(":")[0] for line in diagnose(state(of), of)} == ASPECTS


def test_a_candidate_that_works_is_not_diagnosed(demos, weak):
    of = cycle_of(demos, weak, successes=3)
    assert make_decision(state(of), 0).diagnosis == ()


def test_a_run_that_was_never_evaluated_has_no_findings():
    assert diagnosis_findings(state(), cycle(0, "collect", "train")) == ()


# The page


@pytest.fixture
def lines(demos, weak, tmp_path):
    """The page of a run with two cycles."""

    def write(**changes) -> str:
        of = config(tasks=("push",), **changes)
        first = replace(cycle_of(demos, weak), decision=decision(0, "iterate"))
        second = replace(first, index=1, decision=None)
        run = state(first, second, of=of)
        found = diagnosis_findings(run, second)
        return "\n".join(page_lines(run, run.cycles, found, tmp_path / "runs" / "r"))

    return write


def test_a_page_says_the_likely_cause_then_what_was_measured_then_what_to_do(lines):
    page = lines()
    assert page.startswith(
        "# r: why does nothing work?\n\nNo episode of 20 succeeded in cycle 1; on average they "
        "made 0% of the way. Most likely cause: **loss**: hardly trained: 20 steps saw each frame "
    )
    assert "The run stayed on the rung small: a bigger policy does not mend this." in page
    assert "| loss | suspicious | hardly trained: 20 steps" in page
    assert "| normalisation | ok | " in page
    assert "| 1 | 15 | 20 | " in page
    assert "| push | 0 of 20 |" in page
    parts = ("## What was looked at in cycle 1", "## How it went", "## Tasks", "## What to do next")
    places = [page.index(part) for part in parts]
    assert places == sorted(places)


def test_a_page_names_the_command_of_a_new_run_with_the_remedy(lines):
    ladder = (Rung(name="a", steps=20, policy={"dim_model": "32"}), Rung(name="b"))
    page = lines(ladder=ladder)
    (command,) = [line for line in page.splitlines() if "lefleet run" in line]
    flag = command.strip().removeprefix("lefleet run -c FILE --name=NEW ")
    assert flag.startswith("'--ladder=[")
    (first, second) = json.loads(flag.strip("'").removeprefix("--ladder="))
    assert first == {"name": "a", "steps": 1000, "policy": {"dim_model": "32"}}
    assert second == {"name": "b"}


def test_a_remedy_that_a_config_has_no_field_for_is_no_command(lines):
    """Demonstrations of an existing dataset do not grow."""
    page = lines(collect=DatasetSource(root="/data"), ladder=(Rung(name="a", steps=20),))
    assert "--collect" not in page
    assert "--ladder" in page
    assert "on_training_seeds" not in page


def test_names_in_data_do_not_break_the_table(demos, weak, tmp_path):
    of = cycle_of(demos, weak)
    hostile = "a | b\n# c <script>"
    data = msgspec.structs.replace(of.dataset(), tasks={hostile: 3})
    of = replace(of, records={**of.records, "collect": data})
    found = diagnosis_findings(state(of), of)
    page = "\n".join(page_lines(state(of), [of], found, tmp_path))
    assert "a \\| b # c &lt;script>" in page
    rows = [line for line in page.splitlines() if line.startswith("| coverage")]
    assert {line.replace("\\|", "").count("|") for line in rows} == {5}


@pytest.fixture
def ended(demos, weak, tmp_path):
    """The ledger of a run that has ended after one cycle, as far as it came."""
    opened = []

    def make(successes: int | None, blessed: str = "") -> tuple[Ledger, RunRow]:
        ledger = open_ledger(tmp_path / f"runs{len(opened)}")
        opened.append(ledger)
        ledger.create_run("r", msgspec.to_builtins(config()))
        records = cycle_of(demos, weak, successes or 0).records
        for stage, record in records.items():
            if stage != "evaluate" or successes is not None:
                attempt = ledger.start_attempt("r", 0, stage, ExpertDemos())
                ledger.commit_stage(attempt, record)
        if successes is not None:
            ledger.record_decision("r", decision(0, "baseline" if blessed else "iterate", blessed))
        return ledger, ledger.run("r")

    yield make
    for ledger in opened:
        ledger.close()


def test_a_run_that_ends_with_nothing_blessed_gets_a_page(ended, tmp_path):
    path = write_diagnosis(*ended(0), tmp_path)
    assert path == tmp_path / PAGE
    assert path.read_text().startswith("# r: why does nothing work?")


def test_a_success_below_the_floor_is_said(ended, tmp_path):
    page = write_diagnosis(*ended(2), tmp_path).read_text()
    assert "10% of 20 episodes succeeded in cycle 0, and a baseline needs more than 0%" in page


def test_a_run_without_an_evaluation_gets_none(ended, tmp_path):
    assert write_diagnosis(*ended(None), tmp_path) is None
    assert not (tmp_path / PAGE).exists()


def test_a_page_from_before_is_removed_when_something_works(ended, tmp_path, weak):
    write_diagnosis(*ended(0), tmp_path)
    assert write_diagnosis(*ended(2, read_record(weak).digest), tmp_path) is None
    assert not (tmp_path / PAGE).exists()
