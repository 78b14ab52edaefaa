"""The reference tables of the serving pages say what the code has."""

import re
from dataclasses import fields
from pathlib import Path

import msgspec
import pytest

from lefleet.policy.families import LEROBOT
from lefleet.server.manifest import Manifest
from lefleet.server.monitoring import Metrics
from lefleet.server.observers import RequestOutcome
from lefleet_client import remote, wire
from lefleet_client.wire import limits

DOCS = Path(__file__).parents[2] / "docs"
pytestmark = pytest.mark.skipif(not DOCS.is_dir(), reason="the pages are in the repository only")
MESSAGES = [
    wire.ActionChunk,
    wire.Capabilities,
    wire.Contract,
    wire.Frame,
    wire.Image,
    wire.Observation,
    wire.Probed,
    wire.RequestFailed,
    wire.Reset,
    wire.ResetAck,
    wire.ServerStatus,
    wire.SessionAck,
    wire.SessionClose,
    wire.SessionCloseAck,
    wire.SessionClosed,
    wire.SessionOpen,
    wire.SessionRejected,
    wire.SessionStatus,
    wire.StatusRequest,
    wire.Tensor,
]


def page(name: str) -> str:
    return (DOCS / name).read_text()


def rows(text: str) -> list[list[str]]:
    """The cells of every row of every table."""
    lines = [line for line in text.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def first_words(text: str) -> set[str]:
    """Everything in backquotes in the first two columns of tables."""
    return {
        word for row in rows(text) for cell in row[:2] for word in re.findall("`([^`]+)`", cell)
    }


def test_the_table_of_families_is_the_registry():
    written = {
        row[0].strip("`"): (row[1], row[2]) for row in rows(page("serving.md")) if len(row) == 3
    }
    registry = {name: (family.sharing, family.reason) for name, family in LEROBOT.items()}
    assert {name: written.get(name) for name in registry} == registry


def fields_of(kind: type, prefix: str = "") -> set[str]:
    """Names of a manifest's fields; of a part, those of its own fields."""
    found = set()
    for field in msgspec.structs.fields(kind):
        parts = [one for one in _options(field.type) if isinstance(one, type)]
        part = next((one for one in parts if issubclass(one, msgspec.Struct)), None)
        is_part = part is not None and field.name != "tls"
        found |= fields_of(part, f"{field.name}.") if is_part else {prefix + field.name}
    return found


def _options(kind: object) -> tuple[object, ...]:
    return getattr(kind, "__args__", None) or (kind,)


def test_every_field_of_a_manifest_is_explained():
    written_beside_zenoh = {"zenoh.insecure"}
    assert fields_of(Manifest) - first_words(page("serving.md")) == written_beside_zenoh


def test_every_exception_of_a_remote_policy_is_explained():
    errors = [getattr(remote, name) for name in remote.__all__]
    names = {one.__name__ for one in errors if isinstance(one, type) and issubclass(one, Exception)}
    assert names - first_words(page("serving.md")) == {"RemoteError"}


def test_every_metric_is_explained():
    text = Metrics().exposition().decode()
    names = set(re.findall(r"^# TYPE (\w+) (?:counter|histogram)", text, re.MULTILINE))
    written = {word.partition("{")[0] for word in first_words(page("operations.md"))}
    assert names - written == set()


def test_every_field_of_an_audit_line_is_explained():
    names = {field.name for field in fields(RequestOutcome)} | {"time", "event"}
    assert names - first_words(page("operations.md")) == set()


@pytest.mark.parametrize("message", MESSAGES, ids=lambda message: message.__name__)
def test_every_field_of_a_message_is_in_the_protocol(message):
    text = re.sub("```.*?```", "", page("protocol.md"), flags=re.DOTALL)
    words = {
        word for quoted in re.findall("`([^`]+)`", text) for word in re.findall(r"\w+", quoted)
    }
    assert message.__name__ in text
    assert set(message.__struct_fields__) - words == set()


@pytest.mark.parametrize(
    "limit", [limits.MAX_MESSAGE_BYTES, limits.MAX_IMAGE_PIXELS, limits.MAX_OBSERVATION_PIXELS]
)
def test_limits_are_written_out(limit):
    assert f"{limit:,}" in page("protocol.md")


@pytest.mark.parametrize(
    "body",
    [one for one in vars(wire).values() if isinstance(one, wire.Body)],
    ids=lambda body: body.name,
)
def test_limits_of_every_body_are_written_out(body):
    most = body.limits
    assert f"| {most.max_items:,} | {most.max_text:,} |" in page("protocol.md")
