"""A report as a browser sees it: elements, texts, and what it would load."""

from html.parser import HTMLParser
from pathlib import Path

_VOID = ("meta", "br")
_LOADS = ("src", "href", "poster", "action", "data", "srcset", "xlink:href", "background")


class ReportReader(HTMLParser):
    """Elements with their attributes, and the text, of a file; fails where tags do not match."""

    def __init__(self, file: Path) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self._open: list[str] = []
        self.feed(file.read_text())
        self.close()
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self._open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1] != "style":
            self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(" ".join(self.words).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def assert_harmless(self) -> None:
        """It runs nothing, loads nothing and leads nowhere but within itself."""
        names = {tag for tag, _ in self.elements}
        assert names.isdisjoint({"script", "iframe", "object", "embed", "link", "form", "base"})
        ids = [one["id"] for _, one in self.elements if "id" in one]
        assert len(ids) == len(set(ids))
        for tag, attributes in self.elements:
            assert not [name for name in attributes if name.startswith("on")], (tag, attributes)
            for name in _LOADS:
                address = attributes.get(name) or ""
                inside = address.startswith("#") and address[1:] in ids
                data = address.startswith(("data:video/mp4;base64,", "data:image/jpeg;base64,"))
                assert not address or inside or data, (tag, name, address[:80])
            for name in ("aria-labelledby",):
                assert attributes.get(name) in (None, *ids)
            assert "url(" not in (attributes.get("style") or "")
