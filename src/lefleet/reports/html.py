"""Elements of a page. A child that is not an element itself is text, and is escaped: no name, task
or log line can become markup."""

import html
import re
import time
from collections.abc import Iterable

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
"""Not allowed in HTML or in UTF-8, or turns the direction of what follows."""
_EMPTY = ("meta", "br", "line", "path", "rect", "circle", "polyline", "polygon")


class Markup(str):
    """HTML that was made by `element`; anything else is text."""

    __slots__ = ()


def text(value: str) -> Markup:
    """`value` as it is read, whatever it contains."""
    return Markup(html.escape(_CONTROL.sub("�", value)))


def element(name: str, /, *children: str, **attributes: str | float | bool) -> Markup:
    """`element("p", "5 < 6", class_="note")` is `<p class="note">5 &lt; 6</p>`.

    An underscore in an attribute's name stands for a hyphen; True is an attribute without a value,
    False none.
    """
    given = "".join(_attribute(key, value) for key, value in attributes.items())
    if name in _EMPTY:
        return Markup(f"<{name}{given}>" if name in ("meta", "br") else f"<{name}{given}/>")
    return Markup(f"<{name}{given}>{joined(children)}</{name}>")


def joined(parts: Iterable[str], between: str = "") -> Markup:
    """One behind the other."""
    separator = str(text(between))
    return Markup(separator.join(_markup(one) for one in parts))


def moment(at: float) -> Markup:
    """A time on this machine's clock with its date: a report is read on other days."""
    local = time.localtime(at)
    iso = time.strftime("%Y-%m-%dT%H:%M:%S%z", local)
    return element("time", time.strftime("%Y-%m-%d %H:%M", local), datetime=iso)


def table(
    head: Iterable[str],
    rows: Iterable[Iterable[str]],
    *,
    caption: str,
    numbers: int = 0,
    scrolls: bool = False,
) -> Markup:
    """A table whose last columns may be `numbers`; the first cell of a row is its header. Where the
    page is narrow its rows become lists, or it `scrolls` by itself."""
    columns = list(head)
    kinds = ["number" if at >= len(columns) - numbers else "" for at in range(len(columns))]
    heads = [
        element("th", one, scope="col", class_=kind)
        for one, kind in zip(columns, kinds, strict=True)
    ]
    body = [
        element("tr", element("th", first, scope="row"), *_cells(cells, columns[1:], kinds[1:]))
        for first, *cells in rows
    ]
    shown = element(
        "table",
        element("caption", caption),
        element("thead", element("tr", *heads)),
        element("tbody", *body),
        class_="" if scrolls else "lists",
    )
    if not scrolls:
        return shown
    return element("div", shown, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _cells(cells: Iterable[str], columns: list[str], kinds: list[str]) -> list[Markup]:
    return [
        element("td", cell, class_=kind, data_label=column)
        for cell, column, kind in zip(cells, columns, kinds, strict=True)
    ]


def _markup(value: str) -> str:
    return value if isinstance(value, Markup) else text(value)


def _attribute(name: str, value: str | float | bool) -> str:
    plain = name.rstrip("_").replace("_", "-")
    if value is True:
        return f" {plain}"
    if value is False or value == "":
        return ""
    shown = f"{value:g}" if isinstance(value, float) else str(value)
    return f' {plain}="{text(shown)}"'
