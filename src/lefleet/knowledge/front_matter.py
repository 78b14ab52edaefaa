"""The YAML in front of a page: its fields, and changing ours without touching a person's."""

import re
from datetime import UTC, datetime
from typing import Annotated, Any, Literal

import msgspec
import yaml
from msgspec import Meta

from lefleet.knowledge.fences import Unreadable
from lefleet.records.border import Strict, as_bad_input

PageType = Literal["task", "policy", "experiment"]
PageStatus = Literal["observed-once", "replicated", "contradicted", "human-confirmed"]
CONFIRMED = "human-confirmed"
"""Only people write this one."""
_LARGEST = 4_000_000
_PAGE = re.compile(
    r"(\ufeff?---[ \t]*\r?\n)(.*?)(^---[ \t]*(?:\r?\n|\Z))", re.DOTALL | re.MULTILINE
)
_KEY = re.compile(r"([A-Za-z_][\w-]*)[ \t]*:(?:[ \t\r\n]|\Z)")
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


class PageSource(Strict, frozen=True, kw_only=True):
    """Rows of the ledger that a page stands on."""

    run: str
    cycle: int
    events: tuple[int, ...]
    """Ids in the ledger's table `event`."""


class FrontMatter(msgspec.Struct, frozen=True, kw_only=True):
    """Fields that LeFleet writes; a person may add others. schema.json says the same."""

    name: Annotated[str, Meta(min_length=1)]
    type: PageType
    status: PageStatus
    updated: Annotated[str, Meta(pattern=r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")]
    """When the newest of these rows was written."""
    provenance: tuple[PageSource, ...]
    lessons: dict[str, PageStatus] = {}
    """Status of each lesson on the page, by its id. A person may set one to human-confirmed."""
    tasks: tuple[str, ...] = ()
    """Of an experiment or a policy."""
    state: str = ""
    """Of an experiment: the state of its run."""


class _Loader(yaml.SafeLoader):
    """Plain data only: a time stays text, nothing refers to something else, and no field is there
    twice."""

    def compose_node(self, parent: Any, index: Any) -> Any:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("aliases are not allowed")
        return super().compose_node(parent, index)

    def construct_mapping(self, node: Any, deep: bool = False) -> Any:
        names = [key.value for key, _ in node.value if isinstance(key, yaml.ScalarNode)]
        if len(names) > len(set(names)):
            raise yaml.YAMLError("a field is there twice")
        return super().construct_mapping(node, deep)


_Loader.yaml_implicit_resolvers = {
    letter: [(tag, pattern) for tag, pattern in found if tag != "tag:yaml.org,2002:timestamp"]
    for letter, found in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


class PageText(msgspec.Struct, frozen=True):
    """A page in its three parts; `before`, the YAML and `after` make up the front."""

    before: str
    yaml: str
    after: str
    body: str
    fields: dict[str, Any]
    front: FrontMatter

    def text(self) -> str:
        return self.before + self.yaml + self.after + self.body


def read_page(text: str) -> PageText:
    """Unreadable where the front matter is missing, broken or not as the schema wants it."""
    if len(text) > _LARGEST:
        raise Unreadable(f"it is longer than {_LARGEST} characters")
    found = _PAGE.match(text)
    if found is None:
        raise Unreadable("it does not begin with front matter between two lines of ---")
    fields = read_yaml(found[2])
    try:
        front = msgspec.convert(fields, FrontMatter)
    except msgspec.ValidationError as error:
        problem = as_bad_input(error).problem.removesuffix(".")
        raise Unreadable(f"front matter: {problem}", is_schema=True) from error
    return PageText(found[1], found[2], found[3], text[found.end() :], fields, front)


def read_yaml(text: str) -> dict[str, Any]:
    try:
        fields = yaml.load(text, _Loader)  # noqa: S506  a SafeLoader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        where = f" in line {mark.line + 2}" if mark else ""
        raise Unreadable(f"front matter is not YAML{where}") from error
    if not isinstance(fields, dict) or not all(isinstance(key, str) for key in fields):
        raise Unreadable("front matter is not a list of fields")
    return fields


class _Dumper(yaml.SafeDumper):
    """A field per line, and lists of plain values on one."""


def _represent_list(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
    is_plain = not any(isinstance(one, dict | list) for one in values)
    return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=is_plain)


_Dumper.add_representer(list, _represent_list)


def written(fields: dict[str, Any]) -> str:
    """Fields as YAML, in the order given."""
    return yaml.dump(
        fields,
        Dumper=_Dumper,
        sort_keys=False,
        allow_unicode=True,
        width=100,
        default_flow_style=False,
    )


def changed(page: PageText, changes: dict[str, Any]) -> PageText:
    """The page with some fields set; everything else in it stays byte for byte."""
    changes = {
        name: value
        for name, value in changes.items()
        if name not in page.fields or page.fields[name] != value
    }
    if not changes:
        return page
    newline = "\r\n" if page.before.endswith("\r\n") else "\n"
    lines = [_with_value(block, changes, newline) for block in _blocks(page.yaml)]
    missing = {name: value for name, value in changes.items() if name not in _keys(page.yaml)}
    before_end = "".join(lines)
    if missing and before_end and not before_end.endswith("\n"):
        before_end += newline
    text = before_end + (written(missing).replace("\n", newline) if missing else "")
    if read_yaml(text) != page.fields | changes:
        raise Unreadable("its front matter has a form that cannot be changed field by field")
    return read_page(page.before + text + page.after + page.body)


def _keys(text: str) -> list[str]:
    return [key[1] for line in _LINE.findall(text) if (key := _KEY.match(line))]


def _blocks(text: str) -> list[list[str]]:
    """Lines of each top-level field; comments and empty lines behind one stand for themselves."""
    blocks: list[list[str]] = []
    for line in _LINE.findall(text):
        is_apart = not line.strip() or line.startswith("#")
        if _KEY.match(line) or is_apart or not blocks:
            blocks.append([line])
        else:
            # Between the lines of a field, a comment or an empty line belongs to it.
            while len(blocks) > 1 and not _KEY.match(blocks[-1][0]):
                last = blocks.pop()
                blocks[-1] += last
            blocks[-1].append(line)
    return blocks


def _with_value(block: list[str], changes: dict[str, Any], newline: str) -> str:
    key = _KEY.match(block[0])
    if key is None or key[1] not in changes:
        return "".join(block)
    return written({key[1]: changes[key[1]]}).replace("\n", newline)


def moment(at: float) -> str:
    """Seconds since 1970 as the front matter has them."""
    stamp = datetime.fromtimestamp(at, UTC)
    return f"{stamp:%Y-%m-%dT%H:%M:%S}.{stamp.microsecond // 1000:03}Z"
