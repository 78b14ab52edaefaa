"""A run that continues with other budgets, or with a corrected config."""

import json

import msgspec
import pytest

from lefleet.constitution import (
    ConstitutionSource,
    packaged,
    restored,
    rules_for,
    stored,
)
from lefleet.constitution.schema import parse as parse_constitution
from lefleet.errors import BadInput, Denied
from lefleet.ledger import store
from lefleet.loop import runs as module
from lefleet.loop.attempts import Attempts
from lefleet.loop.origin import OriginName
from lefleet.loop.runs import (
    begin,
    change_config,
    resume,
)
from lefleet.loop.state import read_state, stored_config
from lefleet.loop.steps import Propose, next_step
from lefleet.records import Budgets, TrainRequest
from tests.ledger.ledgers import REQUEST
from tests.loop.states import config, decision, origin, record
from tests.loop.test_runs import Controlled

pytestmark = pytest.mark.usefixtures("any_program")


class Ended(Controlled):
    """A finished run of one cycle, without a controller."""

    def __init__(self, workdir) -> None:
        super().__init__(workdir)
        self.leave()
        for stage in ("collect", "train", "evaluate"):
            attempt = self.ledger.start_attempt("r", 0, stage, REQUEST)
            self.ledger.commit_stage(attempt, record(0, stage))
        self.ledger.record_decision("r", decision(0, "baseline", "c0"))
        self.ledger.set_run_state("r", "finished", "all 1 cycles are done")

    def change(self, *overrides: str) -> str:
        return change_config(self.ledger, self.workdir, self.row(), overrides)

    def step(self):
        return next_step(read_state(self.ledger, self.row()))


@pytest.fixture
def ended(tmp_path, monkeypatch):
    monkeypatch.setattr(Controlled, "of", config(budgets=Budgets(cycles=1)))
    made = Ended(tmp_path)
    monkeypatch.setattr(module, "start_controller", made.start)
    yield made
    made.leave()
    made.ledger.close()


def test_a_finished_run_continues_within_a_larger_budget(ended):
    assert ended.change("--budgets.cycles=3") == "resumed"
    assert (ended.row().state, ended.started) == ("running", 1)
    state = read_state(ended.ledger, ended.row())
    assert (state.config.budgets.cycles, state.planned_cycles) == (3, 1)
    assert ended.step() == Propose(1)
    changed, resumed = ended.ledger.events("r")[-2:]
    assert (changed.kind, changed.data) == ("budgets_changed", {"budgets": {"cycles": [1, 3]}})
    assert resumed.kind == "run_resumed"


def test_a_second_change_leaves_the_first_budget_known(ended):
    ended.change("--budgets.cycles=3")
    ended.change("--budgets.cycles=2", "--budgets.wall_hours=5")
    state = read_state(ended.ledger, ended.row())
    assert (state.config.budgets.cycles, state.planned_cycles) == (2, 1)
    assert ended.ledger.events("r")[-2].data == {
        "budgets": {"cycles": [3, 2], "wall_hours": [0.0, 5.0]}
    }


@pytest.mark.parametrize(
    "overrides",
    [
        ("--budgets={cycles: 6}",),
        ("--budgets.cycles=6",),
        ("--budgets={cycles: 9}", "--budgets={cycles: 6}"),
        ("--budgets.cycles=6", "--budgets={}"),
    ],
)
def test_budgets_that_are_not_named_stay_as_they_are(ended, overrides):
    ended.change("--budgets.cycles=3", "--budgets.wall_hours=12")
    ended.change(*overrides)
    budgets = read_state(ended.ledger, ended.row()).config.budgets
    assert budgets == Budgets(cycles=6, wall_hours=12)


def test_a_kill_right_after_the_change_leaves_a_run_that_resumes(ended, monkeypatch):
    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(module, "start_controller", killed)
    with pytest.raises(KeyboardInterrupt):
        ended.change("--budgets.cycles=3")
    assert (ended.row().state, ended.step()) == ("running", Propose(1))
    monkeypatch.setattr(module, "start_controller", ended.start)
    assert resume(ended.ledger, ended.workdir, ended.row()) == "resumed"
    assert ended.change("--budgets.cycles=3") == "resumed"
    assert [one.kind for one in ended.ledger.events("r")].count("budgets_changed") == 1


def test_a_change_that_fails_halfway_changes_nothing(ended, monkeypatch):
    before, events = ended.row(), ended.ledger.events("r")
    write = store.insert_event

    def disk_full(connection, run, kind, data) -> None:
        write(connection, run, kind, data)
        if kind == "run_resumed":
            raise OSError("disk full")

    monkeypatch.setattr(store, "insert_event", disk_full)
    with pytest.raises(OSError, match="disk full"):
        ended.change("--budgets.cycles=3")
    assert (ended.row(), ended.ledger.events("r")) == (before, events)


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("--budgets.device_hours=1", "budgets.cycles: all 1 cycles of r are done. Allow more"),
        ("--budgets.cycles=101", "budgets.cycles: one seed is enough for 100 cycles"),
        ("--budgets.cycles=0", "--budgets.cycles: Expected `int` >= 1."),
        ("--budgets.wall_hours=0.00000001", "budgets.wall_hours: r has used "),
        ("--seed=3", "seed: it cannot be changed in r: it decides which episodes"),
        ("--name=s", "name: it cannot be changed in r: the run is known by it"),
    ],
)
def test_a_budget_that_makes_no_sense_is_refused(ended, override, problem):
    before = ended.row()
    with pytest.raises(BadInput) as caught:
        ended.change("--budgets.evaluation_episodes=99", override)
    assert str(caught.value).startswith(problem)
    assert (ended.row(), ended.started) == (before, 0)


def test_other_fields_lead_to_a_new_run(ended):
    with pytest.raises(BadInput, match=r"lefleet run -c FILE --from r --name=NEW --seed=3"):
        ended.change("--seed=3")


def test_a_run_that_was_decided_to_stop_is_not_continued(ended):
    ended.change("--budgets.cycles=3")
    for stage in ("collect", "train", "evaluate", "gate"):
        attempt = ended.ledger.start_attempt("r", 1, stage, REQUEST)
        ended.ledger.commit_stage(attempt, record(1, stage))
    ended.ledger.record_decision("r", decision(1, "stop", "c0"))
    ended.ledger.set_run_state("r", "finished", "stop")
    with pytest.raises(BadInput, match=r"ended with the decision stop in cycle 1.*--from r"):
        ended.change("--budgets.cycles=9")


def test_a_run_is_not_extended_into_the_seeds_of_a_run_that_started_from_it(ended):
    later = msgspec.to_builtins(origin(run="r", seed_cycles=5))
    ended.ledger.create_run("s", msgspec.to_builtins(config(name="s")), later)
    with pytest.raises(BadInput, match=r"the seeds after 5 cycles of r belong to the run s\."):
        ended.change("--budgets.cycles=6")
    assert ended.change("--budgets.cycles=5") == "resumed"


def test_cycles_that_have_begun_are_not_cut(ended):
    ended.change("--budgets.cycles=3")
    ended.ledger.start_attempt("r", 1, "collect", REQUEST)
    with pytest.raises(BadInput, match=r"budgets\.cycles: 2 cycles of r have begun.*at least 2"):
        ended.change("--budgets.cycles=1")
    assert ended.change("--budgets.cycles=2") == "resumed"


def test_the_config_of_the_begin_and_the_one_of_now_both_find_the_run(ended):
    ended.change("--budgets.cycles=3")
    for cycles in (1, 3):
        again = config(budgets=Budgets(cycles=cycles))
        assert begin(ended.ledger, ended.workdir, again) == "resumed"
    with pytest.raises(BadInput, match=r"other budgets.*lefleet resume r --budgets\.cycles=5"):
        begin(ended.ledger, ended.workdir, config(budgets=Budgets(cycles=5)))
    with pytest.raises(BadInput, match=r"another config \(seed differs\)"):
        begin(ended.ledger, ended.workdir, config(seed=4))
    with pytest.raises(BadInput, match=r"called r, which started without --from"):
        begin(ended.ledger, ended.workdir, config(), OriginName("a", None))


@pytest.fixture
def failed(ended):
    """A run whose second cycle failed in its training."""
    ended.change("--budgets.cycles=3")
    attempt = ended.ledger.start_attempt("r", 1, "collect", REQUEST)
    ended.ledger.commit_stage(attempt, record(1, "collect"))
    attempt = ended.ledger.start_attempt("r", 1, "train", TrainRequest(dataset="d"))
    ended.ledger.end_attempt(attempt, "failed", "out of memory", recorded=0)
    ended.ledger.set_run_state("r", "failed", "train of cycle 1: out of memory")
    return ended


def test_a_failed_run_continues_with_a_corrected_config(failed):
    ladder = [{"name": "small", "batch_size": 8}, {"name": "big"}]
    said = failed.change(f"--ladder={json.dumps(ladder)}", "--hang_after_s=60", "--max_attempts=5")
    assert (said, failed.row().state) == ("resumed", "running")
    now = read_state(failed.ledger, failed.row()).config
    assert (now.ladder[0].batch_size, now.hang_after_s, now.max_attempts) == (8, 60.0, 5)
    assert now.budgets.cycles == 3
    changed, resumed = failed.ledger.events("r")[-2:]
    assert (changed.kind, resumed.kind) == ("config_changed", "run_resumed")
    assert changed.data["fields"] == {
        "ladder[0].batch_size": [64, 8],
        "hang_after_s": [900.0, 60.0],
        "max_attempts": [3, 5],
    }


def test_corrections_add_up_and_can_be_taken_back(failed):
    failed.change("--hang_after_s=60")
    failed.change("--max_attempts=5", "--hang_after_s=900")
    assert failed.row().corrections == {"max_attempts": 5}
    failed.change("--max_attempts=3")
    assert failed.row().corrections is None


def test_a_corrected_run_is_found_by_its_first_config_and_by_the_one_of_now(failed):
    failed.change("--max_attempts=5")
    for attempts in (3, 5):
        again = config(budgets=Budgets(cycles=3), max_attempts=attempts)
        assert begin(failed.ledger, failed.workdir, again) == "resumed"
    with pytest.raises(BadInput, match="max_attempts differs"):
        begin(failed.ledger, failed.workdir, config(budgets=Budgets(cycles=3), max_attempts=4))


def test_a_correction_is_checked_against_the_rules_of_the_run(failed):
    constitution = msgspec.to_builtins(packaged()) | {"caps": {"steps": 2000}}
    rules = rules_for(
        ConstitutionSource("test.yaml", parse_constitution(constitution, "test.yaml")),
        stored_config(failed.row()),
        failed.workdir,
    )
    failed.ledger.set_constitution("r", stored(rules), rules.digest)
    before = failed.row()
    ladder = [{"name": "small", "steps": 5000}, {"name": "big"}]
    with pytest.raises(Denied, match="steps of rung small is 5000, above the limit of 2000"):
        failed.change(f"--ladder={json.dumps(ladder)}")
    assert failed.row() == before
    failed.change("--notify.command=[sh, -c, 'true']")
    assert restored(failed.row().constitution).grants.commands == (("sh", "-c", "true"),)


@pytest.mark.parametrize(
    ("override", "problem"),
    [
        ("--evaluate.env.type=pusht", "evaluate.env: it cannot be changed in r since cycle 0"),
        ("--evaluate.episodes_per_task=9", "evaluate.episodes_per_task: it cannot be changed"),
        ("--collect.noise=0.5", "collect.noise: it cannot be changed in r since cycle 0"),
        ("--decide.escalate_after=9", "decide.escalate_after: it cannot be changed in r since"),
        ("--ladder=[{name: small, policy_type: diffusion}, {name: big}]", "ladder[0].policy_type:"),
        ("--ladder=[{name: small}]", "ladder: it cannot be changed in r since cycle 0"),
        ("--tasks=[reach]", "tasks: it cannot be changed in r: its data"),
    ],
)
def test_what_would_falsify_evidence_is_refused(failed, override, problem):
    before = failed.row()
    with pytest.raises(BadInput) as caught:
        failed.change("--max_attempts=9", override)
    assert str(caught.value).startswith(problem)
    assert "lefleet run -c FILE" in caught.value.remedy
    assert failed.row() == before


def test_a_correction_that_is_refused_stops_no_stage(failed, monkeypatch):
    settled = []
    monkeypatch.setattr(Attempts, "settle", lambda *_: settled.append(1))
    with pytest.raises(BadInput, match=r"budgets\.wall_hours: r has used"):
        failed.change("--max_attempts=9", "--budgets.wall_hours=0.00000001")
    assert settled == []
    failed.change("--max_attempts=9")
    assert settled == [1]
