"""What pages are made of: text, chips, cards, tables, commands to copy, films.

Text is always text: nothing here takes HTML, and addresses are made by `href` functions only.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal

from nicegui import ui
from nicegui.element import Element
from nicegui.elements.mixins.text_element import TextElement

from lefleet.dash.charts import Options
from lefleet.queries.marks import RUN_MARKS, decision_mark
from lefleet.queries.words import explained

Tone = Literal["", "good", "warn", "bad", "busy"]
_TONES: dict[str, Tone] = {
    "running": "busy",
    "waiting": "warn",
    "finished": "good",
    "interrupted": "bad",
    "failed": "bad",
    "denied": "bad",
    "unreadable": "bad",
    "baseline": "good",
    "promote": "good",
    "escalate": "busy",
    "rollback": "bad",
}
_DECISIONS = ("baseline", "promote", "iterate", "escalate", "rollback", "stop")
STATES: dict[str, tuple[str, Tone]] = {
    **{word: (mark, _TONES.get(word, "")) for word, mark in RUN_MARKS.items()},
    **{word: (decision_mark(word), _TONES.get(word, "")) for word in _DECISIONS},
    "blessed": ("★", "good"),
    "won": ("✓", "good"),
    "lost": ("✕", "bad"),
    "both": ("=", ""),
    "neither": ("=", ""),
    "success": ("✓", "good"),
    "failure": ("✕", "bad"),
    "streaming": ("▶", "good"),
    "connecting": ("…", "busy"),
    "reconnecting": ("↻", "warn"),
    "degraded": ("◆", "warn"),
    "stalled": ("‖", "bad"),
    "dead": ("✕", "bad"),
    "silent": ("?", "bad"),
    "gone": ("○", "bad"),
    "ready": ("✓", "good"),
    "draining": ("◆", "warn"),
    "approved": ("✓", "good"),
    "rejected": ("✕", "bad"),
}
"""Shape and tone of every state and decision; the word is always there too."""


class PlainText(TextElement):
    """Text in an element of any kind."""

    def __init__(self, tag: str, text: str, classes: str = "") -> None:
        super().__init__(tag=tag, text=text)
        if classes:
            self.classes(classes)


def box(tag: str = "div", classes: str = "", **attributes: str) -> Element:
    """An element to put others into."""
    made = ui.element(tag)
    if classes:
        made.classes(classes)
    for name, value in attributes.items():
        made.props[name.replace("_", "-")] = value
    return made


def chip(state: str, *, words: str = "", tone: Tone | None = None) -> None:
    """A state as a shape, a word and a colour."""
    shape, known = STATES.get(state, ("●", ""))
    with box("span", f"chip {known if tone is None else tone}"):
        PlainText("span", shape).props["aria-hidden"] = "true"
        PlainText("span", words or state)


def link(text: str, address: str, classes: str = "") -> Element:
    made = PlainText("a", text, classes)
    made.props["href"] = address
    return made


def card(title: str = "", classes: str = "") -> Element:
    """A section with a heading."""
    section = box("section", f"card {classes}")
    if title:
        with section:
            PlainText("h2", title)
    return section


def command(text: str) -> None:
    """A command line with a button that copies it."""
    with box("span", "command"):
        PlainText("code", text)
        button = ui.button("Copy", on_click=lambda: _copy(text), color=None).props(
            "flat dense no-caps"
        )
        button.classes("tiny").props["aria-label"] = f"Copy: {text}"


def _copy(text: str) -> None:
    ui.clipboard.write(text)
    ui.notify("Copied.")


def button(
    text: str, on_click: Callable[..., Any], kind: Literal["primary", "plain", "danger"] = "plain"
) -> ui.button:
    return ui.button(text, on_click=on_click, color=None).props("unelevated no-caps").classes(kind)


def bar(fraction: float, label: str) -> None:
    """A gauge; `label` says the same in words."""
    gauge = box("div", "bar", role="img", aria_label=label)
    with gauge:
        box("i").style(f"width: {100 * min(1.0, max(0.0, fraction)):.1f}%")


def chart(options: Options, description: str, classes: str = "") -> None:
    """A picture of numbers that are also there as text; `description` is for those who do not see
    it."""
    with box("div", f"chart {classes}", role="img", aria_label=description):
        ui.echart(options, renderer="svg").style("width: 100%; height: 100%")


def film(address: str, caption: str, *, from_s: float = 0.0, to_s: float | None = None) -> Element:
    """A film with its controls; with `to_s` a part of one."""
    # Also for a whole film: browsers then show its first frame.
    part = f"#t={from_s or 0.001:.3f}" + ("" if to_s is None else f",{to_s:.3f}")
    video = box("video", src=address + part, aria_label=caption)
    video.props("controls muted playsinline preload=metadata")
    return video


def empty(title: str, *lines: str, commands: Sequence[str] = ()) -> None:
    """Where there is nothing yet: how there will be something."""
    with box("div", "empty"):
        PlainText("h2", title)
        for line in lines:
            PlainText("p", line)
        for one in commands:
            command(one)


def definitions(rows: Iterable[tuple[str, str | Callable[[], Any]]]) -> None:
    """Names and values; a value that is a function builds itself."""
    with box("dl", "pairs"):
        for name, value in rows:
            PlainText("dt", name)
            if isinstance(value, str):
                PlainText("dd", value)
            else:
                with box("dd"):
                    value()


def terms(*texts: str) -> None:
    """What the special terms in these texts mean."""
    for meaning in explained(*texts):
        PlainText("p", meaning, "muted small")


class Table:
    """A table with a caption; on a phone each row becomes a card."""

    def __init__(self, caption: str, columns: Sequence[str], classes: str = "cards") -> None:
        self._columns = columns
        with box("div", "scroll"), box("table", f"facts {classes}") as table:
            PlainText("caption", caption)
            with box("thead"), box("tr"):
                for name in columns:
                    PlainText("th", name).props["scope"] = "col"
            self._body = box("tbody")
        self.element = table

    def row(self, *cells: str | Callable[[], Any], classes: str = "") -> Element:
        """Cells in the order of the columns; one that is a function builds itself."""
        with self._body, box("tr", classes) as row:
            for name, value in zip(self._columns, cells, strict=True):
                if isinstance(value, str):
                    cell: Element = PlainText("td", value)
                else:
                    cell = box("td")
                    with cell:
                        value()
                cell.props["data-label"] = name
        return row


class LivePart[Shown]:
    """A part of a page that is built again when what it shows has changed, and only then: a person
    who reads or types elsewhere on the page is not disturbed."""

    def __init__(self, build: Callable[[Shown], None]) -> None:
        self._build = build
        self._shown: Shown | None = None
        self._box = box("div", "part")

    def show(self, shown: Shown) -> None:
        if shown == self._shown:
            return
        self._shown = shown
        self._box.clear()
        with self._box:
            self._build(shown)

    def show_first(self, shown: Shown) -> None:
        """Where nothing is shown yet."""
        if self._shown is None:
            self.show(shown)
