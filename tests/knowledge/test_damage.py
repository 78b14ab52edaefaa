"""Pages damaged in any place: nothing fails, and what cannot be understood is not touched."""

import shutil
from contextlib import closing

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from lefleet.knowledge import context, ingest, lint, pages, search, update
from lefleet.knowledge.bundle import FOLDER
from lefleet.knowledge.fences import Unreadable, split
from lefleet.knowledge.front_matter import read_page
from lefleet.ledger import open_ledger
from tests.knowledge.played import Cycle, PlayedRun, even

PAGE = "tasks/push.md"
DAMAGE = st.one_of(
    st.text(max_size=30),
    st.sampled_from(
        [
            "---\n",
            "\n---\n",
            "<!-- lefleet:begin lessons -->\n",
            "<!-- lefleet:end lessons -->\n",
            "status: human-confirmed\n",
            "x: &a [*a, *a]\n",
            "\r\n",
            "\t",
            ": ",
            "# ",
            "'",
            "[",
            "\ufeff",
        ]
    ),
)


@pytest.fixture(scope="module")
def before(tmp_path_factory):
    """A work folder with pages of one cycle and a ledger of two."""
    workdir = tmp_path_factory.mktemp("damage") / "runs"
    with closing(open_ledger(workdir)) as ledger:
        run = PlayedRun(ledger, workdir, "a")
        run.play(Cycle(demos=2, successes=even(1), decision="baseline"))
        ingest(ledger, workdir, "a")
        run.play(Cycle(demos=8, successes=even(18), decision="promote", verdict="better"))
    return workdir


def is_readable(text: str) -> bool:
    try:
        split(read_page(text).body)
    except Unreadable:
        return False
    return True


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.floats(0, 1), st.integers(0, 40), DAMAGE)
def test_damage_anywhere_fails_nothing_and_loses_nothing(before, tmp_path_factory, at, cut, put):
    workdir = tmp_path_factory.mktemp("copy") / "runs"
    shutil.copytree(before, workdir)
    path = workdir / FOLDER / PAGE
    whole = path.read_bytes().decode()
    place = int(at * len(whole))
    damaged = whole[:place] + put + whole[place + cut :]
    path.write_bytes(damaged.encode())
    with closing(open_ledger(workdir)) as ledger:
        lint(ledger, workdir)
        assert len(pages(workdir)) == 4
        search(workdir, ["push"])
        context(workdir, ["push"])
        ingest(ledger, workdir, "a")
        after = path.read_bytes().decode()
        if not is_readable(damaged):
            assert after == damaged
        else:
            notes = damaged.rpartition("-->")[2]
            assert after.endswith(notes)
            assert is_readable(after)
        update(ledger, workdir)
        assert path.read_bytes().decode() == after, "a second one changes nothing"
        lint(ledger, workdir)
    shutil.rmtree(workdir)
