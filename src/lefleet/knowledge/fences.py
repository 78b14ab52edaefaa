"""Fenced sections of a page: what LeFleet wrote, between text of people that it never touches.

    <!-- lefleet:begin lessons -->
    generated
    <!-- lefleet:end lessons -->

A fence is a line of its own. `join(split(text)) == text` for every text that `split` accepts.
"""

import hashlib
import re
from collections.abc import Iterable
from typing import NamedTuple

_LINE = re.compile(r"[^\n]*\n|[^\n]+")
_FENCE = re.compile(r"<!-- lefleet:(begin|end) ([a-z][a-z0-9-]*) -->[ \t]*\r?\n?")


class Unreadable(Exception):
    """A page that a person left in a state that LeFleet must not write to; says why."""

    def __init__(self, why: str, *, is_schema: bool = False) -> None:
        super().__init__(why)
        self.is_schema = is_schema
        """Whether it can be read, and is only not as the schema wants it."""


class Section(NamedTuple):
    """A fenced section; `begin` and `end` are its fences as they stand in the file."""

    name: str
    begin: str
    text: str
    end: str


Part = str | Section


def split(body: str) -> list[Part]:
    """Text of people and sections in their order; Unreadable where fences do not pair."""
    parts: list[Part] = []
    inside: tuple[str, str] | None = None
    text: list[str] = []
    for line in _LINE.findall(body):
        fence = _FENCE.fullmatch(line)
        if fence is None:
            text.append(line)
            continue
        kind, name = fence.groups()
        if kind == "begin":
            if inside is not None:
                raise Unreadable(f"section {name} begins inside section {inside[0]}")
            if any(isinstance(part, Section) and part.name == name for part in parts):
                raise Unreadable(f"section {name} is there twice")
            parts.append("".join(text))
            inside = (name, line)
        else:
            if inside is None or inside[0] != name:
                raise Unreadable(f"section {name} ends, but has not begun")
            parts.append(Section(name, inside[1], "".join(text), line))
            inside = None
        text = []
    if inside is not None:
        raise Unreadable(f"section {inside[0]} does not end")
    parts.append("".join(text))
    return [part for part in parts if part]


def join(parts: Iterable[Part]) -> str:
    return "".join(p if isinstance(p, str) else p.begin + p.text + p.end for p in parts)


def fenced(name: str, text: str, newline: str = "\n") -> Section:
    """`text` as a section; it ends with a line break and holds no fence."""
    lines = text.split("\n")
    if any(_FENCE.fullmatch(line) for line in lines):
        raise ValueError(f"section {name} would hold a fence")
    begin, end = (f"<!-- lefleet:{kind} {name} -->{newline}" for kind in ("begin", "end"))
    return Section(name, begin, newline.join(lines), end)


def newline_of(section: Section) -> str:
    """As its file has it: an editor of another system may have changed all of them."""
    return "\r\n" if section.begin.endswith("\r\n") else "\n"


def digest(text: str) -> str:
    """Of a section's text, the same with either kind of line breaks."""
    plain = text.replace("\r\n", "\n")
    return hashlib.sha256(plain.encode("utf-8", "surrogatepass")).hexdigest()
