"""Colours, type and spacing, for light and dark: theme.css, and its light colours for charts.

A chart's options hold plain colours, and who draws it does not know whether the page is dark. So
charts are drawn as SVG with the light colours, and in the dark CSS replaces each of them.
"""

import re
from functools import cache
from importlib.metadata import version
from importlib.resources import files

STYLESHEET = f"/theme-{version('lefleet')}.css"
"""Its address, another one for each release: browsers keep it."""
_COLOUR = re.compile(r"--([a-z0-9-]+): (#[0-9a-f]{6})")


@cache
def stylesheet() -> str:
    """The style of all pages."""
    text = files("lefleet.dash").joinpath("theme.css").read_text()
    # Of two names for one colour, charts mean the first.
    names = {colour: name for name, colour in reversed(colours().items())}
    rules = [
        f'.body--dark .chart [{kind}="{colour}"] {{ {kind}: var(--{name}); }}'
        for colour, name in names.items()
        for kind in ("fill", "stroke")
    ]
    return "\n".join([text, *rules])


@cache
def colours() -> dict[str, str]:
    """The light colours by name: ink, accent, good, …"""
    text = files("lefleet.dash").joinpath("theme.css").read_text()
    light = text[: text.index(".body--dark")]
    return dict(_COLOUR.findall(light))
