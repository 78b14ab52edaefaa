"""Text of others made safe for a page, and the small forms of Markdown that pages use.

Names of tasks, runs and people, reasons and errors come from configs, datasets and other people.
Whatever they contain, it stays on its line, is neither Markdown nor HTML, and opens no fence.
"""

import hashlib
import re
from collections.abc import Iterable, Sequence
from urllib.parse import quote

_PLAIN = re.compile(r"[a-z0-9_][a-z0-9_.-]{0,59}")
_LIKE_HASHED = re.compile(r".*-[0-9a-f]{8}")
_SPECIAL = re.compile(r"([\\`*\[\]|~])")
_LOOSE_UNDERSCORE = re.compile(r"(?<![^\W_])_|_(?![^\W_])")
_LONGEST = 400


def clean(text: str, longest: int = _LONGEST) -> str:
    """On one line, printable, and not endless."""
    words = " ".join(text.split())
    shown = "".join(letter if letter.isprintable() else "?" for letter in words)
    return shown if len(shown) <= longest else shown[: longest - 1] + "…"


def escape(text: str, longest: int = _LONGEST) -> str:
    """The text itself, wherever Markdown would read it as something else."""
    safe = clean(text, longest).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _LOOSE_UNDERSCORE.sub(r"\\_", _SPECIAL.sub(r"\\\1", safe))


def link(text: str, path: str, heading: str = "") -> str:
    """`path` is relative to the page."""
    target = quote(path, safe="/.-_~+=,@", errors="replace")
    return f"[{escape(text)}]({target}{'#' if heading else ''}{quote(heading, safe='')})"


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Cells are Markdown already."""
    lines = [heads, ["---"] * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def bullets(items: Iterable[str]) -> str:
    """Items are Markdown already."""
    return "\n".join(f"- {item}" for item in items)


def slug(name: str) -> str:
    """A file name for `name`, different for different names: a plain name itself, any other one
    with a part of its hash. It has no folder in it and differs from others by more than case."""
    if _PLAIN.fullmatch(name) and not _LIKE_HASHED.fullmatch(name):
        return name
    words = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")[:40].strip("-")
    mark = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:8]
    return f"{words}-{mark}" if words else f"page-{mark}"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def interval(limits: tuple[float, float]) -> str:
    """Without the unit, which the rate in front of it has."""
    low, high = limits
    return f"{100 * low:.0f} to {100 * high:.0f}"


def chance(p_value: float) -> str:
    """As it is written after `p`."""
    return "< 0.001" if p_value < 0.001 else f"= {p_value:.2g}"


def counted(number: int, word: str) -> str:
    """`1 episode`, `2 episodes`."""
    return f"{number} {word}" if number == 1 else f"{number} {word}s"


def listed(words: Sequence[str]) -> str:
    """`a`, `a and b`, `a, b and c`."""
    return " and ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)
