"""Seven things that a person must be able to do without reading docs."""

import re
from contextlib import closing

import pytest
from playwright.sync_api import Page, expect

from lefleet.actions.people import user_name
from lefleet.ledger import read_ledger
from lefleet.queries.datasets import canonical
from tests.dash.browser.conftest import served
from tests.dash.browser.runs import EVIL
from tests.queries.test_fleet import streaming
from tests.server.test_processes import Server

pytestmark = pytest.mark.slow
SLOW_MS = 90_000
"""For what a busy machine does: filming, training, importing torch."""


@pytest.fixture(scope="module")
def place(night, tmp_path_factory):
    """Where the runs were made: what is said here takes effect there."""
    with served(night / "here", tmp_path_factory.mktemp("started")) as opened:
        yield opened


def section(page: Page, title: str | re.Pattern[str]):
    return page.locator("section.card").filter(has=page.get_by_role("heading", name=title))


def test_1_which_of_last_nights_runs_needs_somebody(opener):
    with opener.page("/") as page:
        expect(page.locator(".tile.calls")).to_contain_text("4")
        rows = page.locator("tbody tr")
        expect(rows).to_have_count(5)
        found = [row.inner_text() for row in rows.all()]
        shown = {one.split()[0]: one for one in found}
        assert list(shown) == ["stuck", "shadow", "night", "broken", "unsure"]
        assert "◆" in shown["night"]
        assert "asks whether to promote the candidate of cycle 1" in shown["night"]
        assert "train of cycle 0" in shown["broken"]
        assert "✓" in shown["unsure"]


def test_2_why_a_candidate_is_better_with_films_of_a_pair_that_differs(opener):
    with opener.page("/runs/night") as page:
        page.get_by_role("link", name="Evidence, pairs and films").click()
        expect(section(page, "Not decided yet")).to_contain_text(
            re.compile(r"The candidate is better than the baseline: of \d+ pairs")
        )
        evidence = section(page, "The evidence")
        expect(evidence.locator(".chart svg path").first).to_be_attached()
        expect(evidence).to_contain_text("better from here")
        # One film was made when the gate ended: it is there without another click.
        films = section(page, re.compile("only the candidate succeeded")).locator("video")
        expect(films).to_have_count(2)
        for number in range(2):
            page.wait_for_function(
                "number => document.querySelectorAll('.films video')[number].readyState >= 2",
                arg=number,
            )
        pairs = section(page, "The pairs behind it")
        assert pairs.locator("tbody tr").count() >= 3
        pairs.get_by_role("button", name=re.compile("^Film ")).first.click()
        expect(page.get_by_text("Being filmed, asked for by")).to_be_visible()
        expect(films).to_have_count(2, timeout=SLOW_MS)
        expect(page.get_by_text("ended differently than in the gate")).to_have_count(0)


def test_4_which_data_made_the_blessed_checkpoint(opener):
    with opener.page("/runs/night") as page:
        page.get_by_role("link", name="Which data made it").click()
        made = section(page, "Which data made the blessed checkpoint")
        expect(made).to_be_in_viewport()
        made.get_by_role("link", name="Watch its 4 episodes").click()
        page.get_by_role("link", name="Episode 0", exact=True).click()
        expect(page.get_by_role("heading", name="Episode 0")).to_be_visible()
        expect(page.locator("section.card", has_text="State").locator("svg").first).to_be_visible()


def test_5_why_a_run_failed_and_how_it_goes_on(opener, place):
    with opener.page("/runs/broken") as page:
        why = section(page, "broken failed in train of cycle 0")
        expect(why).to_contain_text("Last lines of broken/cycle_0/train/log.txt")
        expect(why.locator("pre")).to_contain_text("many")
        expect(why.locator("pre")).not_to_contain_text("torchcodec")
        log = place.workdir / "broken" / "cycle_0" / "train" / "log.txt"
        expect(why).to_contain_text(f"Read {log}, correct the cause")
        expect(why).to_contain_text("lefleet resume broken")
        why.get_by_role("button", name="Resume", exact=True).click()
        # It fails again, by itself: the page shows both without being loaded again.
        expect(page.locator(".chip", has_text="running").first).to_be_visible(timeout=SLOW_MS)
        expect(page.locator(".chip", has_text="failed").first).to_be_visible(timeout=SLOW_MS)
        with closing(read_ledger(place.workdir)) as ledger:
            resumed = ledger.feed.recent("broken", kinds=("run_resumed",))
        assert [one.data["by"] for one in resumed] == [user_name()]


def test_6_which_robot_has_trouble_since_when_and_on_which_server(opener, place, checkpoint_of):
    server = Server(checkpoint_of("act_environment"), place.router, "gpu-box").ready()
    try:
        with streaming(place.router, "arm"), opener.page("/fleet") as page:
            robots = section(page, "Robots")
            expect(robots.locator("tbody tr")).to_contain_text("streaming", timeout=SLOW_MS)
            expect(section(page, "Servers")).to_contain_text("gpu-box")
            server.kill()
            trouble = page.locator("section.bad")
            expect(trouble).to_contain_text("In trouble since", timeout=SLOW_MS)
            expect(trouble).to_contain_text("arm")
            expect(trouble).to_contain_text("on server gpu-box")
            for column in ("action age", "round trip", "fallbacks", "reconnects"):
                expect(robots).to_contain_text(column)
    finally:
        if server.process.poll() is None:
            server.kill()


def test_7_episodes_are_watched_and_labelled_with_two_keys(opener, place):
    with opener.page("/episodes") as page:
        page.get_by_role("link", name="kitchen").click()
        page.get_by_role("link", name="Episode 1", exact=True).click()
        page.wait_for_function("document.querySelector('video')?.readyState >= 2")
        label = section(page, "How did it end?")
        page.keyboard.press("s")
        expect(label.locator(".chip")).to_contain_text("success")
        page.keyboard.press("f")
        expect(label.locator(".chip")).to_contain_text("failure")
        expect(label).to_contain_text(f"by {user_name()}")
        page.keyboard.press("n")
        expect(page.get_by_role("heading", name="Episode 2")).to_be_visible()
    root = str(canonical(place.datasets / "kitchen"))
    with closing(read_ledger(place.workdir)) as ledger:
        said = ledger.labels.history(root, 1)
    assert [(one.success, one.who) for one in said] == [
        (False, user_name()), (True, user_name()),
    ]  # fmt: skip


def test_2_a_gate_that_could_not_decide_says_how_many_more_pairs_it_may_need(opener):
    with opener.page("/runs/unsure/cycles/1") as page:
        why = section(page, "Why")
        expect(why).to_contain_text("No clear answer: of 4 pairs")
        expect(why).to_contain_text(re.compile(r"about [\d,]+ new pairs show it 8 times in 10"))
        expect(why).to_contain_text(
            re.compile(r"lefleet compare unsure:1 unsure:0 --tasks .* --max-pairs \d")
        )
        evidence = section(page, "The evidence")
        expect(evidence).to_contain_text("4 used of at most 4")
        # There was one look only: both bounds are there all the same.
        for colour in ("#17713f", "#b3261e"):
            bound = evidence.locator(f".chart svg path[stroke='{colour}'][stroke-dasharray]").first
            expect(bound).to_be_attached()
            assert bound.bounding_box()["width"] > 50
        expect(evidence).not_to_contain_text("saved")


def answer(page: Page, run: str):
    """The card of what a run asks."""
    return page.locator("section.calls", has=page.get_by_role("link", name=run, exact=True))


def test_3_a_no_from_a_phone_with_its_reason_and_who_said_it(opener):
    """A page that was open before follows it."""
    reason = f"the gripper looks unsafe {EVIL}"
    with opener.page("/runs/shadow") as other, opener.page("/approvals", phone=True) as page:
        expect(answer(page, "shadow")).to_contain_text("A no asks for your reason")
        answer(page, "shadow").get_by_role("button", name="No …").click()
        page.get_by_role("button", name="Say no").click()
        expect(page.get_by_text("Say why not, for those who come after you.")).to_be_visible()
        page.get_by_label("Reason").fill(reason)
        page.get_by_role("button", name="Say no").click()
        said = section(page, "Who said what").locator("tbody tr", has_text="shadow")
        expect(said).to_contain_text("the gripper looks unsafe", timeout=SLOW_MS)
        expect(said).to_contain_text(user_name())
        expect(said.locator(".chip")).to_contain_text("rejected")
        expect(other.locator(".chip", has_text="finished").first).to_be_visible(timeout=SLOW_MS)
        decisions = section(other, "Success and decisions")
        expect(decisions).to_contain_text("promotion rejected by")
        expect(decisions).to_contain_text("the gripper looks unsafe")


def test_3_a_yes_from_a_phone_blesses_the_candidate(opener, place):
    """Of the real run, which ends with it."""
    with opener.page("/runs/night") as other, opener.page("/approvals", phone=True) as page:
        card = answer(page, "night")
        expect(card).to_contain_text("The candidate is better than the baseline")
        expect(card.locator(".chart svg path").first).to_be_attached()
        card.get_by_role("button", name="Yes").click()
        said = section(page, "Who said what").locator("tbody tr", has_text="night")
        expect(said.locator(".chip")).to_contain_text("approved", timeout=SLOW_MS)
        expect(said).to_contain_text(user_name())
        expect(card).to_have_count(0)
        expect(other.locator(".chip", has_text="finished").first).to_be_visible(timeout=SLOW_MS)
        newest = section(other, "Success and decisions").locator(".stack > div").first
        expect(newest.locator(".chip", has_text="blessed")).to_be_visible()
        expect(newest).to_contain_text(f"approved by {user_name()}")
    with closing(read_ledger(place.workdir)) as ledger:
        assert ledger.decisions("night")[-1].answer.who == user_name()


def test_an_escalation_is_asked_with_what_it_rests_on(opener):
    with opener.page("/approvals", phone=True) as page:
        card = answer(page, "stuck")
        expect(card).to_contain_text("small: act, 1,000 steps")
        expect(card).to_contain_text("big: act, 1,000 steps")
        expect(card.get_by_role("img", name=re.compile("Success over cycles"))).to_be_visible()
        expect(card.locator("li")).to_have_count(2)
        card.get_by_role("link", name="Cycle 2").click()
        expect(page.get_by_role("heading", name="Cycle 2")).to_be_visible()


def test_a_run_is_started_stopped_and_resumed_from_the_page(opener, place):
    with opener.page("/") as page:
        page.get_by_role("button", name="Start a run").click()
        page.get_by_label("Name").fill("morning")
        page.get_by_role("button", name="Start", exact=True).click()
        page.wait_for_url("**/runs/morning")
        chips = page.locator("h1 + .chip")
        for button in ("Stop", "Resume", "Stop"):
            page.get_by_role("button", name=button, exact=True).first.click(timeout=SLOW_MS)
            if button == "Stop":
                page.get_by_role("button", name="Stop it").click()
            state = "stopped" if button == "Stop" else "running"
            expect(chips).to_contain_text(state, timeout=SLOW_MS)
        expect(section(page, "morning was stopped")).to_contain_text(f"By {user_name()}")
    with closing(read_ledger(place.workdir)) as ledger:
        kinds = ("stop_requested", "run_resumed", "stop_requested")
        done = [one for one in ledger.feed.recent("morning") if one.kind in kinds]
    assert [one.data["by"] for one in done] == [user_name()] * 3
