"""The evidence of a gate while it is running: that of its record, as far as it is."""

from contextlib import closing

import msgspec
import pytest

from lefleet.ledger import open_ledger
from lefleet.queries.cycles import cycle_detail, evidence
from lefleet.queries.running_gate import comparison_so_far
from lefleet.queries.runs import RunReader
from lefleet.records import encode
from lefleet.rollouts import EnvironmentDescription
from lefleet.stages.environment import begun_tasks
from lefleet.stages.folder import ENVIRONMENT, read_record
from tests.gates import CYCLE, RUN, copied, request_of
from tests.ledger.ledgers import REQUEST
from tests.loop.states import config, decision, record


@pytest.fixture
def running(workdir, comparison):
    """The folder of a gate that no record ends yet."""
    gate = copied(comparison, workdir / RUN / f"cycle_{CYCLE}" / "gate")
    (gate / "record.json").unlink()
    return gate


def cut(gate, lines: int) -> None:
    """As if only so many episodes had ended, and the next was being written."""
    journal = gate / "episodes.jsonl"
    journal.write_bytes(b"\n".join(journal.read_bytes().split(b"\n")[:lines]) + b'\n{"poli')


def begin_gate(ledger, request):
    """All that a run does before its first gate, and the attempt at it."""
    ledger.create_run(RUN, msgspec.to_builtins(config(name=RUN)))
    for cycle in range(CYCLE + 1):
        for stage in ("collect", "train", "evaluate"):
            attempt = ledger.start_attempt(RUN, cycle, stage, REQUEST)
            ledger.commit_stage(attempt, record(cycle, stage))
        if cycle < CYCLE:
            ledger.record_decision(RUN, decision(cycle, "baseline", f"c{cycle}"))
    return ledger.start_attempt(RUN, CYCLE, "gate", request)


def test_with_all_episodes_it_is_what_the_gate_recorded(running, comparison):
    judged, ended = comparison_so_far(running, request_of(running)), read_record(comparison)
    assert evidence(judged) == evidence(ended)
    same = ("gate", "per_task", "looks", "candidate", "baseline", "episodes", "needed_pairs")
    assert [getattr(judged, name) for name in same] == [getattr(ended, name) for name in same]


def test_it_grows_with_the_episodes_and_is_a_beginning_of_the_whole(running, comparison):
    whole, request = evidence(read_record(comparison)), request_of(running)
    journal = (running / "episodes.jsonl").read_bytes()
    seen = []
    for lines in range(0, journal.count(b"\n"), 4):
        (running / "episodes.jsonl").write_bytes(journal)
        cut(running, lines)
        judged = comparison_so_far(running, request)
        if judged is None:
            assert not seen
            continue
        path = evidence(judged)
        looks = len(path.pairs)
        assert (path.pairs, path.value) == (whole.pairs[:looks], whole.value[:looks])
        assert (path.better, path.worse) == (whole.better[:looks], whole.worse[:looks])
        seen.append(looks)
    assert seen == sorted(seen)
    assert len(seen) > 1


def test_a_cycle_shows_it_until_the_record_is_there(running, workdir, comparison):
    journal = (running / "episodes.jsonl").read_bytes()
    ended, request = read_record(comparison), request_of(running)
    with closing(open_ledger(workdir)) as ledger:
        attempt = begin_gate(ledger, request)
        reader = RunReader(lambda: ledger, workdir)
        cut(running, 0)
        assert cycle_detail(reader, RUN, CYCLE).evidence is None
        (running / "episodes.jsonl").write_bytes(journal)
        cut(running, journal.count(b"\n") - 4)
        found = cycle_detail(reader, RUN, CYCLE)
        assert found.verdict.startswith("No clear answer yet, 60 pairs are planned: of ")
        assert (found.gate.ended, found.baseline) == ("open", ended.baseline)
        assert 0 < found.gate.pairs < ended.gate.pairs
        ledger.commit_stage(attempt, ended, ())
        assert cycle_detail(reader, RUN, CYCLE).gate == ended.gate


@pytest.mark.parametrize("damage", ["episodes.jsonl", "inputs.json"])
def test_a_damaged_file_shows_nothing(running, damage):
    (running / damage).write_bytes(b"not json\n")
    assert comparison_so_far(running, request_of(running)) is None


def test_a_gate_in_an_environment_that_has_not_said_its_tasks_shows_nothing(running):
    request = msgspec.structs.replace(request_of(running), env={"type": "pusht"})
    assert comparison_so_far(running, request) is None


def test_a_gate_in_an_environment_is_judged_with_its_tasks(running):
    tasks = begun_tasks(request_of(running), running)
    described = EnvironmentDescription(
        type="any",
        tasks=dict.fromkeys(tasks, ""),
        steps=dict.fromkeys(tasks, 1),
        fps=1,
        observations={},
        action=1,
    )
    expected = comparison_so_far(running, request_of(running))
    (running / ENVIRONMENT).write_bytes(encode(described))
    (running / "episodes.jsonl").touch()
    request = msgspec.structs.replace(request_of(running), env={"type": "any"})
    assert comparison_so_far(running, request) == expected
    assert expected.tasks == tasks
