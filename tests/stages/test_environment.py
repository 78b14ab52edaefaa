"""Evaluations and gates in LeRobot environments: the same engine, so the same results."""

import json

import msgspec
import pytest

from lefleet.errors import BadInput, StageFailed
from lefleet.records import CompareRequest, EvaluateRequest, encode
from lefleet.rollouts import EnvironmentDescription
from lefleet.stages import run_stage
from lefleet.stages.environment import begun_tasks, require_runnable
from lefleet.stages.films import read_film
from lefleet.stages.folder import ENVIRONMENT
from lefleet.stages.references import CheckpointReference, find_checkpoint
from tests.conftest import TASKS
from tests.policy import tiny
from tests.rollouts.equality import tiny_act
from tests.rollouts.test_gym_world import LISTED
from tests.stages.test_compare import request

OWN = {
    "discover_packages_path": "lefleet.sim",
    "type": "lefleet_metaworld",
    "task": ",".join(TASKS),
}


def lines_of(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / "episodes.jsonl").read_bytes().splitlines()]


@pytest.fixture(scope="session")
def env_gate(once, checkpoint, weak):
    """Our own simulation through LeRobot's factory: outcomes are mixed."""
    return once(request(checkpoint, weak, env=OWN, films=1), "env_gate")


def test_a_gate_in_a_lerobot_environment_stops_early_with_the_evidence_of_our_own(
    env_gate, comparison
):
    ours, theirs = (
        json.loads((folder / "record.json").read_bytes()) for folder in (comparison, env_gate)
    )
    assert theirs["looks"] == ours["looks"]
    assert theirs["gate"] == ours["gate"]
    assert 0 < ours["gate"]["wins"] < ours["gate"]["pairs"] < 60
    assert theirs["tasks"] == [f"{task}-0" for task in ours["tasks"]]


def test_episodes_are_those_of_our_own_simulation(env_gate, comparison):
    def outcomes(folder):
        return {
            (one["policy"], one["task"].removesuffix("-0"), one["seed"]): (
                one["success"],
                one["length"],
                one["progress"],
            )
            for one in lines_of(folder)
        }

    ours, theirs = outcomes(comparison), outcomes(env_gate)
    both = ours.keys() & theirs.keys()
    assert len(both) >= 2 * json.loads((comparison / "record.json").read_bytes())["gate"]["pairs"]
    assert {key: ours[key] for key in both} == {key: theirs[key] for key in both}


def test_both_checkpoints_begin_every_pair_with_the_same_observation(env_gate):
    starts = {}
    for one in lines_of(env_gate):
        assert one["start"]
        assert starts.setdefault((one["task"], one["seed"]), one["start"]) == one["start"]
    assert len(set(starts.values())) == len(starts)


def test_a_pair_is_filmed_and_ends_as_it_did(env_gate):
    (file,) = (env_gate / "films").glob("*.json")
    task, _, seed = file.stem.rpartition("_")
    film = read_film(env_gate, task, int(seed))
    assert film.state == "made", film.problem
    assert film.candidate.is_same
    assert film.baseline.is_same


def test_an_interrupted_evaluation_runs_only_what_is_missing(weak, tmp_path):
    asked = EvaluateRequest(
        checkpoint=str(weak),
        env={**OWN, "task": "push,reach", "episode_length": "4"},
        episodes_per_task=3,
        batch_size=2,
        videos_per_task=1,
        workers=1,
    )
    record = run_stage(asked, tmp_path / "e")
    assert record.tasks == ("push-0", "reach-0")
    assert record.result.mean_length == 4
    films = sorted(path.name for path in (tmp_path / "e" / "videos").iterdir())
    assert films == ["push-0_100000000.mp4", "reach-0_100000000.mp4"]
    whole = lines_of(tmp_path / "e")
    journal = tmp_path / "e" / "episodes.jsonl"
    kept = journal.read_bytes().splitlines(keepends=True)[:4]
    journal.write_bytes(b"".join(kept))
    (tmp_path / "e" / "record.json").unlink()
    again = run_stage(asked, tmp_path / "e")
    assert again == record
    assert journal.read_bytes().startswith(b"".join(kept))

    def by_seed(lines):
        return sorted(lines, key=lambda line: (line["task"], line["seed"]))

    assert by_seed(lines_of(tmp_path / "e")) == by_seed(whole)


def test_what_an_older_version_began_with_lerobot_eval_is_not_mixed(weak, tmp_path):
    asked = EvaluateRequest(
        checkpoint=str(weak), env={**OWN, "episode_length": "2"}, episodes_per_task=1
    )
    run_stage(asked, tmp_path / "e")
    journal = tmp_path / "e" / "episodes.jsonl"
    older = {**lines_of(tmp_path / "e")[0], "length": 0, "start": ""}
    journal.write_text(json.dumps(older) + "\n")
    (tmp_path / "e" / "record.json").unlink()
    with pytest.raises(StageFailed, match="older version"):
        run_stage(asked, tmp_path / "e")


@pytest.fixture(scope="module")
def listed_act(tmp_path_factory):
    return tiny_act(tmp_path_factory.mktemp("listed"), LISTED, -1.0, 1.0)


def listed_gate(checkpoint, **changes) -> CompareRequest:
    values = {"max_pairs": 30, "workers": 1, "env": LISTED, "initial_states": 6, "look_every": 12}
    return CompareRequest(checkpoint=str(checkpoint), baseline=str(checkpoint), **values | changes)


def test_a_finite_list_of_initial_states_is_used_once(listed_act, tmp_path):
    record = run_stage(listed_gate(listed_act), tmp_path / "gate")
    assert (record.gate.max_pairs, record.gate.pairs) == (12, 12)
    assert (record.gate.wins, record.gate.losses) == (0, 0)
    assert "6 initial states" in record.note
    assert len({(one["task"], one["start"]) for one in lines_of(tmp_path / "gate")}) == 12
    # In every task, the state of number 1 is the one that succeeds.
    solved = {(one["task"], one["seed"]) for one in lines_of(tmp_path / "gate") if one["success"]}
    assert solved == {("do-0", record.first_seed + 1), ("do-1", record.first_seed + 1)}


@pytest.mark.parametrize("declared", [0, 7])
def test_a_gate_must_know_how_long_the_list_is(listed_act, tmp_path, declared):
    with pytest.raises(BadInput, match="initial_states: tests_listed has 6"):
        run_stage(listed_gate(listed_act, initial_states=declared), tmp_path / "gate")
    assert not (tmp_path / "gate").exists()


def test_an_evaluation_begins_from_no_listed_state_twice(listed_act, tmp_path):
    request = EvaluateRequest(checkpoint=str(listed_act), env=LISTED, episodes_per_task=7)
    with pytest.raises(BadInput, match="episodes_per_task: tests_listed has 6 initial states"):
        run_stage(request, tmp_path / "evaluate")
    assert not (tmp_path / "evaluate").exists()


def test_an_environment_that_does_not_use_its_seed_is_no_evidence(listed_act, tmp_path):
    env = {**LISTED, "is_listed": "false"}
    with pytest.raises(StageFailed, match="begins the same with seeds"):
        run_stage(listed_gate(listed_act, env=env, initial_states=0), tmp_path / "gate")


def test_a_refused_environment_leaves_nothing(listed_act, tmp_path):
    with pytest.raises(BadInput, match=r"env\.type"):
        run_stage(listed_gate(listed_act, env={"type": "pushed"}), tmp_path / "gate")
    assert not (tmp_path / "gate").exists()


WIDER = {"observation.state": (4,), "observation.environment_state": (3,)}


def described(**changes) -> EnvironmentDescription:
    values = {
        "type": "any",
        "tasks": {"any-0": ""},
        "steps": {"any-0": 3},
        "fps": 10,
        "observations": {"observation.state": (2,), "observation.environment_state": (3,)},
        "action": 1,
    }
    return EnvironmentDescription(**values | changes)


@pytest.mark.parametrize(
    ("changes", "problem"),
    [
        ({"action": 3}, r"action has shape \[1\], the environment any has \[3\]"),
        ({"observations": WIDER}, r"state has shape \[2\], .*any has \[4\]"),
        ({"observations": {"observation.image": (3, 8, 8)}}, "any does not have it"),
    ],
)
def test_a_policy_for_something_else_is_refused(listed_act, changes, problem):
    found = CheckpointReference(str(listed_act), "digest")
    require_runnable(found, "checkpoint", described())
    with pytest.raises(BadInput, match=f"checkpoint: the policy's .*{problem}"):
        require_runnable(found, "checkpoint", described(**changes))


def test_a_policy_that_makes_its_environment_state_needs_only_its_state(checkpoint_of):
    found = CheckpointReference(str(checkpoint_of("act_state")), "digest")
    require_runnable(found, "checkpoint", described(action=3, observations={tiny.STATE: (3,)}))
    with pytest.raises(BadInput, match=r"the policy's observation.state has shape"):
        require_runnable(found, "checkpoint", described(action=3, observations={}))


def test_a_policy_of_our_simulation_needs_its_columns(weak):
    found = find_checkpoint(str(weak), "checkpoint")
    with pytest.raises(BadInput, match="checkpoint: the policy's action"):
        require_runnable(found, "checkpoint", described())


def test_tasks_are_those_that_the_stage_began_with(tmp_path):
    asked = listed_gate("c")
    with pytest.raises(BadInput, match="older version"):
        begun_tasks(asked, tmp_path)
    (tmp_path / ENVIRONMENT).write_bytes(encode(described()))
    assert begun_tasks(asked, tmp_path) == ("any-0",)
    own = msgspec.structs.replace(asked, env={}, tasks=("push",))
    assert begun_tasks(own, tmp_path) == ("push",)
