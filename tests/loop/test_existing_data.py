"""Whether an existing dataset suffices is known before a run begins."""

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lefleet.errors import BadInput
from lefleet.loop.existing_data import require_data
from lefleet.records import Budgets, DatasetSource, EvaluatePlan
from lefleet.sim.encode import ROBOT_TYPE
from lefleet.stages.contract import SIMULATED_INFO
from tests.loop.states import config
from tests.samples import PUSH

PUSHT = EvaluatePlan(env={"type": "pusht"})


@pytest.fixture
def dataset(tmp_path):
    """The description of a dataset with these episodes; there are no frames to read."""

    def made(robot_type: str = "so101", **episodes: int) -> str:
        root = tmp_path / "data"
        (root / "meta" / "episodes").mkdir(parents=True)
        info = SIMULATED_INFO | {"robot_type": robot_type}
        (root / "meta" / "info.json").write_text(json.dumps(info))
        texts = [[text.replace("_", " ")] for text, count in episodes.items() for _ in range(count)]
        table = pa.table({"episode_index": range(len(texts)), "tasks": texts})
        pq.write_table(table, root / "meta" / "episodes" / "file-000.parquet")
        return str(root)

    return made


def run(root: str, per_task: int | tuple[int, ...] = 0, cycles: int = 3, **changes):
    source = DatasetSource(root=root, tasks=("open the drawer", "wave"), episodes_per_task=per_task)
    given = {"evaluate": PUSHT, "tasks": ("mine",), **changes}
    return config(collect=source, budgets=Budgets(cycles=cycles), **given)


def test_a_schedule_that_the_data_suffices_for_is_accepted(dataset):
    root = dataset(open_the_drawer=40, wave=41)
    require_data(run(root, (10, 20, 40)))
    require_data(run(root))
    require_data(run(root, 40))


@pytest.mark.parametrize(
    ("per_task", "cycles", "words"),
    [
        (
            (10, 20, 40),
            3,
            "collect.episodes_per_task: cycle 2 asks for 40, but wave has only 30. "
            "Ask for at most 30. Or end before: --budgets.cycles=2",
        ),
        ((10, 20), 4, "cycle 3 asks for 40, but wave has only 30."),
        (31, 3, "cycle 0 asks for 31, but wave has only 30. Ask for at most 30."),
    ],
)
def test_the_cycle_that_asks_for_too_much_is_named(dataset, per_task, cycles, words):
    root = dataset(open_the_drawer=40, wave=30)
    with pytest.raises(BadInput) as caught:
        require_data(run(root, per_task, cycles))
    assert words in str(caught.value)


def test_fewer_cycles_need_less_data(dataset):
    require_data(run(dataset(open_the_drawer=40, wave=30), (10, 20, 40), cycles=2))


def test_data_of_another_robot_needs_an_environment(dataset):
    root = dataset(open_the_drawer=2, wave=2)
    with pytest.raises(BadInput) as caught:
        require_data(run(root, evaluate=EvaluatePlan(), tasks=("push",)))
    assert caught.value.problem.startswith(f"evaluate.env: {root} is data of so101")
    assert "--evaluate.env.type=" in caught.value.remedy


def test_data_of_the_simulation_needs_none(dataset):
    root = dataset(ROBOT_TYPE, **{PUSH.replace(" ", "_"): 2})
    source = DatasetSource(root=root)
    require_data(config(collect=source, tasks=("push",)))


def test_a_missing_task_is_named_in_the_words_of_the_data(dataset):
    root = dataset(open_the_drawer=2)
    with pytest.raises(BadInput, match=r"collect\.tasks: .* has no episode of wave.*open the draw"):
        require_data(run(root))


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"collect\.root: .* does not exist"):
        require_data(run(str(tmp_path / "none")))


def test_a_dataset_on_the_hub_is_not_looked_up():
    require_data(config(collect=DatasetSource(repo_id="a/b"), evaluate=PUSHT))


def test_demonstrations_need_no_data(tmp_path: Path):
    require_data(config())
