"""Structure: the cost of a body is bounded before any of it is decoded."""

import contextlib
import random
import sys

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet_client import wire
from lefleet_client.wire import structure
from lefleet_client.wire.limits import MAX_DEPTH, MAX_KEY_BYTES, MAX_TASK_BYTES, BodyLimits
from tests.client.wire.memory import peak_bytes
from tests.client.wire.mutation import mutated
from tests.client.wire.samples import MESSAGES, SESSION_LIMITS, observation

WIDE = BodyLimits(1 << 30, max_items=100_000, max_text=1 << 20)
pack = msgspec.msgpack.encode


def require_structure(data: bytes, limits: BodyLimits, max_fields: int = 100_000) -> None:
    structure.require_structure(data, limits, max_fields)


def problem_of(data: bytes, limits: BodyLimits = WIDE) -> str:
    with pytest.raises(wire.BadBody) as caught:
        require_structure(data, limits)
    return str(caught.value)


def lines_run(call) -> int:
    """How many lines of the walk a call runs: the work, whatever the machine's speed."""
    count = 0
    here = structure.__file__

    def trace(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename != here:
            return None
        count += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        call()
    finally:
        sys.settrace(before)
    return count


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.floats(width=32)
    | st.text(max_size=300)
    | st.binary(max_size=300),
    lambda inner: (
        st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=40), inner, max_size=20)
    ),
    max_leaves=60,
)


@given(VALUES)
def test_what_a_packer_writes_is_walked_to_its_end(value):
    require_structure(pack(value), WIDE)
    require_structure(memoryview(pack(value)), WIDE)


@pytest.mark.parametrize("size", [0, 1, 15, 16, 31, 32, 255, 256, 65_535, 65_536])
def test_every_length_of_every_kind_is_walked(size):
    for value in ("x" * size, b"x" * size, [None] * size, {str(n): n for n in range(size // 3)}):
        require_structure(pack(value), WIDE._replace(max_items=size + 1))


@given(VALUES.map(pack), st.data())
def test_a_cut_off_or_longer_item_is_refused(data, draw):
    assert "cut off" in problem_of(data[: draw.draw(st.integers(0, len(data) - 1))])
    assert "1 bytes follow" in problem_of(data + b"\xc0")


@given(st.binary(max_size=200))
def test_any_bytes_are_an_item_or_a_typed_error(data):
    """Where the walk agrees, a decoder finds one whole item too; it may still refuse the text."""
    try:
        require_structure(data, WIDE)
    except wire.BadBody:
        return
    with contextlib.suppress(msgspec.DecodeError, UnicodeDecodeError, TypeError):
        msgspec.msgpack.decode(data)


@pytest.mark.parametrize("count", [9, 99, 999])
def test_items_are_counted_with_keys(count):
    limits = WIDE._replace(max_items=count + 1)
    for whole, more in ([None] * count, [None] * (count + 1)), ([[0] * (count - 1)], [[0] * count]):
        require_structure(pack(whole), limits)
        assert f"more than {count + 1} items" in problem_of(pack(more), limits)
    fields = {str(number): 0 for number in range(count // 2)}
    require_structure(pack(fields), limits)
    assert "items" in problem_of(pack(fields | {"a": 0, "b": 0}), limits)


def test_a_key_stands_once_in_its_map():
    require_structure(pack([{"a": {"a": 1}}, {"a": 1}]), WIDE)
    assert "b'a' twice" in problem_of(b"\x82\xa1a\x01\xa1a\x02")
    assert "b'a' twice" in problem_of(b"\x82\xa1a\x01\xd9\x01a\x02")


@pytest.mark.parametrize("key", [b"\x01", b"\xc4\x01a", b"\x90", b"\x80", b"\xc0"])
def test_a_key_is_text(key):
    assert "key" in problem_of(b"\x81" + key + b"\x01")


def test_texts_keys_and_depth_are_bounded():
    limits = WIDE._replace(max_text=2000)
    require_structure(pack(["é" * 1000, b"x" * 5000]), limits)
    assert "2001 bytes, above 2000" in problem_of(pack("x" * 2001), limits)
    assert "key" in problem_of(pack({"x" * (MAX_KEY_BYTES + 1): 1}), limits)
    require_structure(b"\x91" * MAX_DEPTH + b"\x01", WIDE)
    assert "deeper" in problem_of(b"\x91" * (MAX_DEPTH + 1) + b"\x01")


@pytest.mark.parametrize("head", [0xC1, 0xC7, 0xC8, 0xC9, 0xD4, 0xD5, 0xD6, 0xD7, 0xD8])
def test_extensions_are_refused(head):
    assert "no number, text" in problem_of(bytes([head]) + bytes(20))


TENSOR = {"dtype": "float32", "shape": [1], "data": b"1234"}
IMAGE = {"codec": "raw", "shape": [1, 1, 3], "data": b"123"}


def repeated(key: str, value: object, size: int) -> bytes:
    item = pack(key) + pack(value)
    return b"\xdf" + (size // len(item)).to_bytes(4, "big") + item * (size // len(item))


def unknown_fields(size: int) -> bytes:
    count = size // 8
    return (
        b"\xdf"
        + count.to_bytes(4, "big")
        + b"".join(b"\xa6%06x\xc0" % number for number in range(count))
    )


def long_text(value: object, size: int) -> bytes:
    """`value`, whose text "LONG" has this size instead."""
    return pack(value).replace(b"\xa4LONG", b"\xdb" + size.to_bytes(4, "big") + b"x" * size)


ENCODED = {name: body.encode(message) for name, (body, message) in MESSAGES.items()}
FIELDS = {name: msgspec.msgpack.decode(data) for name, data in ENCODED.items()}
SIZE = 60_000_000
BOMBS = {
    "repeated texts": lambda: repeated("task", "", SIZE),
    "repeated vectors": lambda: repeated("vectors", {"a": TENSOR}, SIZE),
    "unknown fields": lambda: unknown_fields(SIZE // 4),
    "a long codec": lambda: long_text({"images": {"a": IMAGE | {"codec": "LONG"}}}, SIZE),
    "a long dtype": lambda: long_text({"vectors": {"a": TENSOR | {"dtype": "LONG"}}}, SIZE),
    "a long unknown text": lambda: long_text({"added_later": "LONG"}, SIZE),
    "many small maps": lambda: b"\x81\xa1x\xdd" + (SIZE // 4).to_bytes(4, "big") + b"\x80" * SIZE,
    "a long key": lambda: b"\x81\xdb" + SIZE.to_bytes(4, "big") + b"x" * SIZE + b"\x01",
    "a long binary key": lambda: b"\x81\xc6" + SIZE.to_bytes(4, "big") + b"x" * SIZE + b"\x01",
    "nested lists": lambda: b"\x81\xa1x" + b"\x91" * SIZE,
}


@pytest.mark.parametrize(
    "limits", [wire.OBSERVATION.limits, SESSION_LIMITS.body], ids=["any", "session"]
)
@pytest.mark.parametrize("bomb", BOMBS)
def test_a_bomb_costs_little(bomb, limits):
    data = BOMBS[bomb]()
    limits = limits._replace(max_bytes=len(data))

    def decode() -> None:
        with pytest.raises(wire.BadBody):
            wire.OBSERVATION.decode(data, limits)

    assert lines_run(decode) < 1000
    assert peak_bytes(decode) < 100_000


def test_the_work_of_a_walk_is_bounded_by_its_items():
    """The most expensive body within the limits: every item is a key or a value of its own."""
    count = (SESSION_LIMITS.body.max_items - 1) // 2
    data = unknown_fields(8 * count)
    assert lines_run(lambda: require_structure(data, SESSION_LIMITS.body)) < 60 * count
    with pytest.raises(wire.BadBody, match="items"):
        require_structure(unknown_fields(8 * count + 8), SESSION_LIMITS.body)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_message_has_a_handful_of_unknown_fields_at_most(name):
    body, message = MESSAGES[name]
    value = FIELDS[name]
    largest = max(len(one) for other, one in FIELDS.items() if MESSAGES[other][0] is body)
    later = {f"added_{number}": 1 for number in range(8 + largest - len(value))}
    assert body.decode(pack(value | later)) == message
    with pytest.raises(wire.BadBody, match="fields, above"):
        body.decode(pack(value | later | {"added_too": 1}))


def test_a_session_question_is_small():
    assert wire.SESSION_REQUEST.limits.max_bytes == 64 * 1024
    assert wire.RESET.limits.max_bytes == wire.STATUS_REQUEST.limits.max_bytes == 64 * 1024
    for body in (wire.SESSION_REQUEST, wire.RESET, wire.STATUS_REQUEST):
        with pytest.raises(wire.BadBody, match="above 65536"):
            body.decode(bytes(65_537))


def test_the_largest_status_fits():
    body, status = MESSAGES["status"]
    client = msgspec.structs.replace(status.clients[0], client_id="x" * 256, robot_type="y" * 256)
    full = msgspec.structs.replace(status, clients=(client,) * 4096)
    assert body.decode(body.encode(full)) == full


def test_the_largest_status_of_a_robot_fits():
    body, status = MESSAGES["robot_status"]
    names = ("client_id", "state", "robot_type", "service", "server", "digest", "image_codec")
    full = msgspec.structs.replace(
        status,
        **dict.fromkeys(names, "\U0001f9be" * 256),
        task="\U0001f9be" * 2048,
        reason="\U0001f9be" * 1024,
        warnings=("\U0001f9be" * 1024,) * 16,
    )
    assert body.decode(body.encode(full)) == full
    longer = msgspec.structs.replace(full, warnings=("",) * 17)
    with pytest.raises(wire.BadBody, match=r"length <= 16 - at `\$.warnings`"):
        body.decode(body.encode(longer))


def test_the_largest_chunk_fits():
    body, chunk = MESSAGES["chunk"]
    tensor = wire.encode_tensor(np.zeros((512, 1024), "<f4"))
    full = msgspec.structs.replace(chunk, chunk_model=tensor, chunk_robot=tensor)
    assert body.decode(body.encode(full)) == full


HEADS = [b"\xdf\x7f\xff\xff\xff", b"\xdb\x00\x10\x00\x00", b"\xc1", b"\x81", b"\xa1a"]


@contextlib.contextmanager
def short_wire_errors():
    """Nothing but errors of the wire, which do not repeat what was sent."""
    text = ""
    try:
        yield
    except wire.WireError as error:
        text = str(error)
    assert len(text) < 300


def decode_any(name: str, data: bytes) -> None:
    with short_wire_errors():
        MESSAGES[name][0].decode(data)
    with short_wire_errors():
        seen = wire.decode_observation(data, SESSION_LIMITS)
        wire.decode_images(seen.images)
        for tensor in seen.vectors.values():
            wire.decode_tensor(tensor)


@given(st.sampled_from(sorted(MESSAGES)), st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_a_mutated_body_is_a_message_or_a_typed_error(name, rng):
    decode_any(name, mutated(ENCODED[name], rng, HEADS))


@pytest.mark.chaos
def test_very_many_mutated_bodies():
    rng = random.Random(0)
    for _ in range(50_000):
        for name, data in ENCODED.items():
            decode_any(name, mutated(data, rng, HEADS))


@pytest.mark.parametrize("size", [250, 8000])
def test_an_error_repeats_little_of_a_long_name(size):
    name = "é" * (size // 8)
    for value in (
        {"vectors": {name: TENSOR | {"dtype": "x"}}},
        {"vectors": {name: TENSOR | {"dtype": "uint8", "shape": [4]}}},
        {"images": {name: IMAGE | {"shape": [4096, 3072, 3], "codec": "jpeg"}}},
        {name: 1, "task": 5},
        {"type": "y" * size},
    ):
        with pytest.raises(wire.WireError) as caught:
            wire.decode_observation(pack(value), SESSION_LIMITS._replace(pixels={name: 1}))
        assert len(str(caught.value)) < 300


def test_a_task_of_a_session_question_and_its_names_have_lengths():
    value = msgspec.msgpack.decode(ENCODED["session_open"])
    for field in ("robot_type", "pin_digest", "client_id", "model"):
        with pytest.raises(wire.BadBody, match=rf"length <= 256 - at `\$.{field}`"):
            wire.SESSION_REQUEST.decode(pack(value | {field: "x" * 257}))
    with pytest.raises(wire.BadBody, match=r"length <= 2048 - at `\$.task`"):
        wire.SESSION_REQUEST.decode(pack(value | {"task": "x" * 2049}))
    with pytest.raises(wire.BadBody, match=f"above {MAX_TASK_BYTES}"):
        wire.SESSION_REQUEST.decode(pack(value | {"task": "x" * (MAX_TASK_BYTES + 1)}))
    assert wire.OBSERVATION.decode(wire.OBSERVATION.encode(observation()))
