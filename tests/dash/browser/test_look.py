"""How every page looks and can be used: no errors, no requests elsewhere, light and dark, on a
phone, with names and contrast for everybody; and stored text is never more than text."""

import pytest

from lefleet.actions.people import user_name
from lefleet.queries.datasets import dataset_id
from lefleet_client.remote import RobotReport
from lefleet_client.transport import ZenohSettings, ZenohTransport
from lefleet_client.wire import RobotStatus
from tests.dash.browser.conftest import served
from tests.dash.browser.runs import EVIL

pytestmark = pytest.mark.slow
PAGES = (
    *("/", "/runs/night", "/runs/broken", "/runs/night/cycles/1", "/runs/unsure/cycles/1"),
    *("/approvals", "/fleet", "/episodes", "/episodes/{kitchen}", "/episodes/{kitchen}/2"),
    *("/knowledge", "/knowledge/tasks/push.md", "/knowledge/experiments/night.md"),
)

CONTRAST = """
() => {
  const parse = text => {
    const found = text.match(/[\\d.]+/g).map(Number);
    return {rgb: found.slice(0, 3), alpha: found.length > 3 ? found[3] : 1};
  };
  const light = ([r, g, b]) => {
    const one = [r, g, b].map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * one[0] + .7152 * one[1] + .0722 * one[2];
  };
  const behind = element => {
    for (let e = element; e; e = e.parentElement) {
      const {rgb, alpha} = parse(getComputedStyle(e).backgroundColor);
      if (alpha > .99) return rgb;
    }
    return [255, 255, 255];
  };
  const bad = [];
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode, element = node.parentElement;
    if (!node.textContent.trim() || element.closest('svg, script, style, noscript')) continue;
    const box = element.getBoundingClientRect(), style = getComputedStyle(element);
    const hidden = style.visibility === 'hidden' || +style.opacity === 0;
    if (!box.width || !box.height || box.right < 0 || hidden) continue;
    const [a, b] = [light(parse(style.color).rgb), light(behind(element))];
    const ratio = (Math.max(a, b) + .05) / (Math.min(a, b) + .05);
    const size = parseFloat(style.fontSize), bold = +style.fontWeight >= 700;
    const needed = size >= 24 || (bold && size >= 18.66) ? 3 : 4.5;
    if (ratio < needed) bad.push([node.textContent.trim().slice(0, 40), ratio.toFixed(2)]);
  }
  return bad;
}
"""
CUT_PLACES = """
() => [...document.querySelectorAll('nav.main a')]
  .filter(e => e.getBoundingClientRect().right > innerWidth).map(e => e.innerText)
"""
CUT = """
() => [...document.querySelectorAll('.content *')]
  .filter(e => e.scrollWidth > e.clientWidth + 1 && e.getBoundingClientRect().width > 0
    && ['auto', 'scroll', 'hidden'].includes(getComputedStyle(e).overflowX)
    && !e.closest('.chart, .q-field, .q-checkbox'))
  .map(e => e.outerHTML.slice(0, 120))
"""
"""What a person would have to push sideways, or cannot see at all."""
NAMELESS = """
() => {
  const named = e => (e.getAttribute('aria-label') || e.innerText || e.title ||
    (e.labels && e.labels[0] && e.labels[0].innerText) ||
    (e.getAttribute('aria-labelledby') &&
      document.getElementById(e.getAttribute('aria-labelledby'))?.innerText) || '').trim();
  const seen = e => e.getBoundingClientRect().width > 0 && e.type !== 'hidden';
  const kinds = 'a, button, input, select, textarea, video, [role=img], [role=button]';
  return [...document.querySelectorAll(kinds)].filter(e => seen(e) && !named(e))
    .map(e => e.outerHTML.slice(0, 120));
}
"""


@pytest.fixture(scope="module")
def place(night, tmp_path_factory):
    with served(night / "copy", tmp_path_factory.mktemp("started")) as opened:
        yield opened


def path_of(template: str, place) -> str:
    return template.format(kitchen=dataset_id(place.datasets / "kitchen"))


@pytest.mark.parametrize("template", PAGES)
@pytest.mark.parametrize(("dark", "phone"), [(False, False), (True, True)], ids=["light", "dark"])
def test_everybody_can_use_a_page(opener, place, template, dark, phone, tmp_path):
    with opener.page(path_of(template, place), dark=dark, phone=phone) as page:
        page.wait_for_load_state("load")
        page.screenshot(path=tmp_path / "page.png", full_page=True)
        assert page.evaluate("document.documentElement.scrollWidth") <= (360 if phone else 1280)
        assert page.evaluate(CUT_PLACES) == []
        assert page.evaluate(CUT) == []
        assert page.get_by_role("heading", level=1).count() >= 1
        assert page.evaluate(CONTRAST) == []
        assert page.evaluate(NAMELESS) == []


def test_charts_have_other_colours_in_the_dark(opener):
    grids = {}
    for dark in (False, True):
        with opener.page("/runs/night/cycles/1", dark=dark) as page:
            line = page.locator(".chart svg path[stroke='#d9dfe6']").first
            line.wait_for(state="attached")
            grids[dark] = line.evaluate("e => getComputedStyle(e).stroke")
    assert grids == {False: "rgb(217, 223, 230)", True: "rgb(48, 58, 69)"}


def test_the_legend_of_the_evidence_is_whole_on_a_phone(opener):
    with opener.page("/runs/night/cycles/1", phone=True) as page:
        for name in ("better from here", "won minus lost", "worse from here"):
            line = page.locator(".chart svg text", has_text=name).first
            line.wait_for(state="attached")
            box, frame = line.bounding_box(), page.locator(".chart svg").first.bounding_box()
            assert box["x"] + box["width"] <= frame["x"] + frame["width"]


def test_the_keyboard_reaches_everything_on_the_first_page(opener):
    with opener.page("/") as page:
        page.wait_for_selector("tbody tr")
        reached = []
        for _ in range(20):
            page.keyboard.press("Tab")
            reached.append(page.evaluate("document.activeElement.innerText"))
        assert reached[0] == "Skip to the content"
        assert {"Runs", "Fleet", "Episodes", "Knowledge", "night", "broken"} <= set(reached)


def test_stored_text_is_never_run(opener, place):
    """In a log, a knowledge page, a task text; the reason of a no is tried elsewhere."""
    log = place.workdir / "broken" / "cycle_0" / "train" / "log.txt"
    with log.open("a") as file:
        file.write(f"\n{EVIL}\n")
    page_file = place.workdir / "knowledge" / "tasks" / "door-open.md"
    with page_file.open("a") as file:
        file.write(f"\n{EVIL}\n\n[click](javascript:window.pwned=1)\n")
    kitchen = dataset_id(place.datasets / "kitchen")
    with opener.page("/runs/broken") as page:
        assert EVIL in page.locator("pre.log").first.inner_text()
    opener.errors.clear()
    with opener.page("/knowledge/tasks/door-open.md") as page:
        page.wait_for_selector(".prose p")
        for link in page.get_by_text("click", exact=True).all():
            link.click(no_wait_after=True)
    # The picture that the text asks for is not there.
    opener.errors = [one for one in opener.errors if "404" not in one]
    with opener.page(f"/episodes/{kitchen}/2") as page:
        assert EVIL in page.locator("p.why").inner_text()


def test_names_and_reasons_of_robots_are_only_text(opener, place):
    settings = ZenohSettings(mode="client", connect=(place.router.endpoint,))
    with ZenohTransport.open(settings) as node, RobotReport(node, EVIL) as report:
        report.publish(RobotStatus(client_id=EVIL, state="stalled", reason=EVIL, task=EVIL))
        with opener.page("/fleet", phone=True) as page:
            page.wait_for_selector("section.bad")
            assert EVIL in page.locator("section.bad").inner_text()
            assert EVIL in page.locator("tbody").inner_text()
            assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_a_knowledge_page_is_edited_and_says_by_whom(opener, place):
    with opener.page("/knowledge/tasks/push.md") as page:
        page.get_by_role("button", name="Edit").click()
        field = page.get_by_label("Text")
        field.fill(field.input_value() + "\nThe puck is slippery on Mondays.\n")
        page.get_by_role("button", name="Save").click()
        page.get_by_text("slippery on Mondays").wait_for()
        page.get_by_text(f"edited by {user_name()}").wait_for()
    assert "slippery" in (place.workdir / "knowledge" / "tasks" / "push.md").read_text()


def test_a_run_is_planned_and_a_bad_name_refused(opener, place):
    with opener.page("/") as page:
        page.get_by_role("button", name="Start a run").click()
        page.get_by_label("Name").fill("../elsewhere")
        page.get_by_role("button", name="Start", exact=True).click()
        page.get_by_text("name:").first.wait_for()
        page.get_by_label("Name").fill("planned")
        page.get_by_role("button", name="Plan only").click()
        page.locator("pre.log", has_text="train").last.wait_for()
    assert not (place.workdir / "planned").exists()


MISSING = (
    *("/runs/nobody", "/runs/night/cycles/77", "/episodes/000000000000"),
    "/knowledge/tasks/none.md",
)


def test_what_does_not_exist_is_said_with_a_way_back(opener):
    for path in MISSING:
        with opener.page(path) as page:
            back = page.get_by_role("link", name="All runs", exact=True)
            back.wait_for()
            if path == MISSING[0]:
                # It is said once, however often the page looks again.
                page.wait_for_timeout(2500)
            assert back.count() == 1
            assert page.get_by_role("link", name="Knowledge", exact=True).count() >= 1
    # The browser tells of the page itself.
    opener.errors = [one for one in opener.errors if "404" not in one]
