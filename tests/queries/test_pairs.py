"""The pairs of a real gate, as its judge saw them."""

from contextlib import closing

import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from lefleet.queries.paging import MOST, Page
from lefleet.queries.pairs import GatePair, judged_pairs, pairs
from lefleet.records import CompareRequest, EpisodeRecord
from lefleet.stages.environment import begun_tasks
from lefleet.stages.films import ask, claimed
from lefleet.stages.folder import read_record
from lefleet.stages.verdict import Trial, gate_order, pair_order
from tests.gates import CYCLE, RUN, commit, request_of
from tests.samples import comparison_record


@pytest.fixture
def ledger(workdir, gate):
    with closing(open_ledger(workdir)) as opened:
        yield opened


def test_all_pairs_come_in_the_order_of_judging(ledger, workdir, gate):
    page = pairs(ledger, workdir, RUN, CYCLE)
    judged = read_record(gate).gate
    order = gate_order(request_of(gate), begun_tasks(request_of(gate), gate))
    assert page.total == len(page.items) == judged.pairs
    assert [(one.task, one.seed) for one in page.items] == order[: judged.pairs]
    assert [one.number for one in page.items] == [*range(1, judged.pairs + 1)]
    outcomes = [one.outcome for one in page.items]
    assert (outcomes.count("won"), outcomes.count("lost")) == (judged.wins, judged.losses)
    assert all(one.film is None for one in page.items)
    assert all(one.candidate.length > 0 for one in page.items)


def test_a_pair_is_what_both_journals_say(ledger, workdir, gate):
    lines = (gate / "episodes.jsonl").read_bytes().splitlines()
    episodes = [msgspec.json.decode(line, type=EpisodeRecord) for line in lines]
    ended = {(one.policy, one.task, one.seed): one for one in episodes}
    names = {(True, False): "won", (False, True): "lost", (True, True): "both"}
    for one in pairs(ledger, workdir, RUN, CYCLE).items:
        ours, theirs = (ended[role, one.task, one.seed] for role in ("candidate", "baseline"))
        assert one.outcome == names.get((ours.success, theirs.success), "neither")
        assert (one.candidate.length, one.candidate.progress) == (ours.length, ours.progress)
        assert (one.baseline.length, one.baseline.progress) == (theirs.length, theirs.progress)


def test_differing_pairs_keep_their_numbers(ledger, workdir, gate):
    every = pairs(ledger, workdir, RUN, CYCLE).items
    page = pairs(ledger, workdir, RUN, CYCLE, differing=True)
    assert page.items == tuple(one for one in every if one.outcome in ("won", "lost"))
    assert page.total == len(page.items) > 0


def test_pages_are_parts_of_the_list(ledger, workdir, gate):
    every = pairs(ledger, workdir, RUN, CYCLE, limit=MOST).items
    page = pairs(ledger, workdir, RUN, CYCLE, offset=2, limit=3)
    assert (page.items, page.total, page.offset) == (every[2:5], len(every), 2)
    behind = pairs(ledger, workdir, RUN, CYCLE, offset=len(every))
    assert (behind.items, behind.total) == ((), len(every))
    encoded = msgspec.json.encode(page)
    assert msgspec.json.decode(encoded, type=Page[GatePair]) == page


@pytest.mark.parametrize(
    ("asked", "field"),
    [
        ({"offset": -1}, "offset"),
        ({"offset": 2**63}, "offset"),
        ({"limit": 0}, "limit"),
        ({"limit": MOST + 1}, "limit"),
    ],
)
def test_a_page_that_is_none_is_refused(ledger, workdir, asked, field):
    with pytest.raises(BadInput, match=f"{field}: "):
        pairs(ledger, workdir, RUN, CYCLE, **asked)


def test_a_cycle_without_a_gate_has_no_pairs(ledger, workdir):
    assert pairs(ledger, workdir, RUN, 0).total == 0
    with pytest.raises(BadInput, match="no run called other"):
        pairs(ledger, workdir, "other", CYCLE)


def test_a_pair_shows_its_film(ledger, workdir, gate):
    trial = judged_pairs(ledger, RUN, CYCLE)[1].trial
    with claimed(gate, [trial]):
        film = ask(gate, trial, "anna")
        shown = [one.film for one in pairs(ledger, workdir, RUN, CYCLE).items]
    assert [one for one in shown if one is not None] == [film]
    assert shown[1] == film


def test_pairs_that_lerobot_eval_ran_for_an_older_version_are_in_order_too(workdir, comparison):
    """lerobot-eval ran all episodes of one checkpoint, then all of the other, task by task."""
    tasks, seed, count = ("put the mug", "open the drawer"), 300_000_000, 5
    episodes = [
        EpisodeRecord(policy=role, task=task, seed=seed + at, success=at == 1, progress=0, length=0)
        for role in ("candidate", "baseline")
        for task in tasks
        for at in range(3)
    ]
    asked = CompareRequest(
        checkpoint="a/b", baseline="a/c", tasks=("suite",), seed=seed, env={"type": "libero"}
    )
    of_task = comparison_record().per_task.values()
    part = next(iter(of_task))
    per_task = {
        task: msgspec.structs.replace(part, pairs=number)
        for task, number in zip(tasks, (3, 2), strict=True)
    }
    commit(workdir, asked, comparison_record(per_task=per_task), episodes, comparison)
    with closing(open_ledger(workdir)) as ledger:
        found = pairs(ledger, workdir, RUN, CYCLE)
    assert [Trial(one.task, one.seed) for one in found.items] == pair_order(tasks, seed, count)
    assert {one.outcome for one in found.items} == {"both", "neither"}
