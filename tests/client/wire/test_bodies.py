"""Bodies: round trips, additive evolution, and hostile bytes."""

import contextlib
import math

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lefleet_client import wire
from lefleet_client.wire import limits
from tests.client.wire.memory import peak_bytes
from tests.client.wire.samples import ACTIONS, MESSAGES, RGB, STATE, chunk, observation

NAMES = st.text(min_size=1, max_size=20)
FLOATS = st.floats(width=32, allow_nan=False)
VECTORS = st.dictionaries(
    NAMES, npst.arrays("<f4", st.integers(1, 8), elements=FLOATS).map(wire.encode_tensor)
)
IMAGES = st.dictionaries(
    NAMES,
    npst.arrays(np.uint8, st.tuples(st.integers(1, 4), st.integers(1, 4), st.just(3))).map(
        lambda array: wire.encode_image(array, 0)
    ),
    max_size=2,
)
PREFIX = st.none() | npst.arrays("<f4", (3, 2), elements=FLOATS).map(wire.encode_tensor)
OBSERVATIONS = st.builds(
    wire.Observation,
    vectors=VECTORS,
    images=IMAGES,
    task=st.text(max_size=50),
    inference_delay_steps=st.integers(0, 100),
    prefix_model=PREFIX,
    prefix_robot=PREFIX,
    noise_seed=st.none() | st.integers(0, 2**64 - 1),
    history=st.lists(st.builds(wire.Frame, vectors=VECTORS), max_size=2).map(tuple),
)
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=10)
    | st.binary(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=10,
)


def as_dict(name: str) -> dict:
    body, message = MESSAGES[name]
    return msgspec.msgpack.decode(body.encode(message))


def problem_of(body: wire.Body, value: object) -> str:
    with pytest.raises(wire.BadBody) as caught:
        body.decode(msgspec.msgpack.encode(value))
    return str(caught.value)


@given(OBSERVATIONS)
def test_observations_make_the_round_trip(message):
    assert wire.OBSERVATION.decode(wire.OBSERVATION.encode(message)) == message


@given(npst.arrays("<f4", npst.array_shapes(min_dims=2, max_dims=2, max_side=8), elements=FLOATS))
def test_chunks_make_the_round_trip(actions):
    tensor = wire.encode_tensor(actions)
    message = msgspec.structs.replace(chunk(), chunk_model=tensor, chunk_robot=tensor)
    back = wire.CHUNK.decode(wire.CHUNK.encode(message))
    np.testing.assert_array_equal(wire.decode_tensor(back.chunk_model), actions)
    assert back == message


@pytest.mark.parametrize("name", MESSAGES)
def test_a_body_that_is_cut_off_anywhere_is_a_typed_error(name):
    body, message = MESSAGES[name]
    data = body.encode(message)
    for end in range(len(data)):
        with pytest.raises(wire.BadBody):
            body.decode(data[:end])


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
@settings(max_examples=50)
def test_a_damaged_body_is_a_message_or_a_typed_error(name, data):
    body, message = MESSAGES[name]
    damaged = bytearray(body.encode(message))
    damaged[data.draw(st.integers(0, len(damaged) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(wire.BadBody):
        body.decode(bytes(damaged))


@given(st.sampled_from(sorted(MESSAGES)), st.binary(max_size=100))
def test_random_bytes_are_a_typed_error(name, data):
    body, _ = MESSAGES[name]
    with pytest.raises(wire.BadBody):
        body.decode(data + b"\xc1")


@pytest.mark.parametrize("name", MESSAGES)
@given(data=st.data())
@settings(max_examples=50)
def test_junk_in_a_field_is_a_message_or_a_typed_error(name, data):
    body, _ = MESSAGES[name]
    value = as_dict(name)
    value[data.draw(st.sampled_from(sorted(value)))] = data.draw(JUNK)
    with contextlib.suppress(wire.BadBody):
        body.decode(msgspec.msgpack.encode(value))


@pytest.mark.parametrize("name", MESSAGES)
def test_unknown_fields_are_ignored_at_every_depth(name):
    def extended(value):
        if isinstance(value, dict) and value:
            inner = {key: extended(part) for key, part in value.items()}
            is_struct = all(key.isidentifier() for key in value) and "site" not in value
            return inner | ({"added_later": [1, {"x": b"y"}]} if is_struct else {})
        return [extended(part) for part in value] if isinstance(value, list) else value

    body, message = MESSAGES[name]
    assert body.decode(msgspec.msgpack.encode(extended(as_dict(name)))) == message


@pytest.mark.parametrize("name", MESSAGES)
def test_missing_optional_fields_take_their_defaults(name):
    body, message = MESSAGES[name]
    fields = msgspec.structs.fields(message)
    optional = {field.name for field in fields if not field.required}
    value = {key: part for key, part in as_dict(name).items() if key not in optional}
    back = body.decode(msgspec.msgpack.encode(value))
    defaults = {field.name: field for field in fields if not field.required}
    for key, field in defaults.items():
        expected = field.default_factory() if field.default is msgspec.NODEFAULT else field.default
        assert getattr(back, key) == expected


def test_an_error_names_the_field():
    value = as_dict("chunk")
    assert "$.load" in problem_of(wire.CHUNK, value | {"load": 2.0})
    assert "$.load" in problem_of(wire.CHUNK, value | {"load": math.nan})
    assert "`seq_id`" in problem_of(
        wire.CHUNK,
        {"type": "action_chunk"} | {key: value[key] for key in ("chunk_model", "chunk_robot")},
    )
    assert "$.type" in problem_of(wire.EVENT, {"type": "x" * 10_000})


@pytest.mark.parametrize(
    ("name", "field", "wrong"),
    [
        ("session_open", "fps", (math.nan, math.inf, -1.0, 0.0, 10_001)),
        ("session_open", "cameras", ({"a": [8193, 1, 3]}, {"a": [0, 1, 3]})),
        ("session_open", "episode_id", (-1, 2**32)),
        ("session_open", "seq_id", (-1, 0.5)),
        ("chunk", "prepare_ms", (math.nan, math.inf, -1.0, 1e300)),
        ("chunk", "load", (math.nan, math.inf, -0.1, 1.1)),
        ("chunk", "batch_size", (0, 2**31)),
        ("chunk", "episode_id", (-1, 2**32)),
        ("probed", "decode_ms", (math.nan, math.inf)),
        ("observation", "inference_delay_steps", (-1, 2**63, math.nan)),
        ("status", "load", (math.nan, 2.0)),
        ("reset", "episode_id", (2**32,)),
        ("status", "capabilities.n_obs_steps", (-1, 66)),
        ("status", "capabilities.chunk_size", (-1, 2**16)),
        ("session_ack", "capabilities.contract.fps", (math.inf, 0.0)),
        ("session_ack", "capabilities.envelope_ms", (math.nan, math.inf, -1.0)),
        ("robot_status", "state_s", (math.nan, math.inf, -1.0)),
        ("robot_status", "action_age_ms", (math.nan, math.inf, -1.0, 1e300)),
        ("robot_status", "fallbacks", (-1, 2**63, 0.5)),
        ("robot_status", "episode_id", (-1, 2**32)),
        ("observation", "prefix_model.dtype", ("x" * 17,)),
    ],
)
def test_every_number_is_finite_and_in_range(name, field, wrong):
    body, value = MESSAGES[name][0], as_dict(name)
    *path, last = field.split(".")
    inner = value
    for part in path:
        inner = inner[part]
    for number in wrong:
        inner[last] = number
        assert f"$.{field}" in problem_of(body, value)


def test_a_server_without_an_envelope_is_read():
    value = as_dict("session_ack")
    del value["capabilities"]["envelope_ms"]
    ack = wire.SESSION_REPLY.decode(msgspec.msgpack.encode(value))
    assert ack.capabilities.envelope_ms == 0.0


def test_a_robot_says_at_least_who_it_is_and_its_state():
    least = {"type": "robot_status", "client_id": "arm", "state": "state of a later version"}
    status = wire.ROBOT_STATUS.decode(msgspec.msgpack.encode(least))
    assert (status.state, status.server, status.warnings) == (least["state"], "", ())
    for field in ("client_id", "state"):
        assert f"$.{field}" in problem_of(wire.ROBOT_STATUS, least | {field: ""})


def test_an_error_stays_short_whatever_was_sent():
    for size in (10_000, 1_000_000):
        assert len(problem_of(wire.EVENT, {"type": "x" * size})) < 220


def test_a_message_of_another_kind_is_refused():
    data = wire.CHUNK.encode(chunk())
    with pytest.raises(wire.BadBody, match=r"action_chunk"):
        wire.OBSERVATION.decode(data)


@pytest.mark.parametrize(
    "tensor",
    [
        {"dtype": "float32", "shape": [-3], "data": STATE.tobytes()},
        {"dtype": "float32", "shape": [2**32, 2**32], "data": b""},
        {"dtype": "float32", "shape": [2**62, 4], "data": STATE.tobytes()},
        {"dtype": "float32", "shape": [2**64 - 1], "data": STATE.tobytes()},
        {"dtype": "float32", "shape": [0], "data": b""},
        {"dtype": "float32", "shape": [3.0], "data": STATE.tobytes()},
        {"dtype": "float32", "shape": [1] * 1000, "data": b"1234"},
        {"dtype": "float32", "shape": [3, 1], "data": STATE.tobytes()},
        {"dtype": "float64", "shape": [3], "data": bytes(24)},
        {"dtype": "object", "shape": [3], "data": STATE.tobytes()},
        {"dtype": "float32", "shape": [3], "data": STATE.tolist()},
        {"dtype": "float32", "shape": [3], "data": "text"},
    ],
    ids=str,
)
def test_a_hostile_tensor_is_refused_without_taking_memory(tensor):
    data = msgspec.msgpack.encode({"vectors": {"observation.state": tensor}})

    def decode() -> None:
        with pytest.raises(wire.BadBody, match=r"observation: .*vectors"):
            wire.OBSERVATION.decode(data)

    assert peak_bytes(decode) < 200_000


@pytest.mark.parametrize(
    "head",
    [
        b"\xdd\xff\xff\xff\xff",  # a list of 4 billion
        b"\xdf\xff\xff\xff\xff",  # a map of 4 billion
        b"\xc6\xff\xff\xff\xff",  # 4 GB of bytes
        b"\xdb\xff\xff\xff\xff",  # 4 GB of text
        b"\xc9\xff\xff\xff\xff\x01",  # 4 GB of an extension
    ],
)
@pytest.mark.parametrize("field", ["vectors", "history", "task", "unknown", "prefix_model"])
def test_a_length_that_is_a_lie_takes_no_memory(head, field):
    for rest in (b"", b"\x01" * 1000):
        data = b"\x81" + msgspec.msgpack.encode(field) + head + rest

        def decode(data: bytes = data) -> None:
            with pytest.raises(wire.BadBody):
                wire.OBSERVATION.decode(data)

        assert peak_bytes(decode) < 200_000


@pytest.mark.parametrize(
    ("body", "path", "item"),
    [
        (wire.OBSERVATION, ["history"], b"\x80"),
        (wire.OBSERVATION, ["prefix_model", "shape"], b"\x01"),
        (wire.SESSION_REPLY, ["type", "session_ack", "warnings"], b"\xa0"),
    ],
    ids=lambda value: str(value) if isinstance(value, list) else "",
)
def test_too_many_valid_items_are_refused_before_they_are_made(body, path, item):
    count = min(3_000_000, body.limits.max_bytes - 100)
    head = {
        1: b"\x81" + msgspec.msgpack.encode(path[0]),
        2: b"".join(b"\x81" + msgspec.msgpack.encode(name) for name in path),
        3: b"\x82" + b"".join(msgspec.msgpack.encode(name) for name in path),
    }[len(path)]
    data = head + b"\xdd" + count.to_bytes(4, "big") + item * count

    def decode() -> None:
        with pytest.raises(wire.BadBody, match="items"):
            body.decode(data)

    assert peak_bytes(decode) < 200_000


@pytest.mark.parametrize("field", ["unknown", "vectors"])
def test_deep_nesting_is_a_typed_error(field):
    data = b"\x81" + msgspec.msgpack.encode(field) + b"\x81\xa1a" * 200_000 + b"\x01"
    with pytest.raises(wire.BadBody, match="deeper"):
        wire.OBSERVATION.decode(data)


@pytest.mark.parametrize("name", MESSAGES)
def test_a_body_above_its_limit_is_not_even_looked_at(name):
    body, _ = MESSAGES[name]
    data = bytes(body.limits.max_bytes + 1)

    def decode() -> None:
        with pytest.raises(wire.BadBody, match="above"):
            body.decode(data)

    assert peak_bytes(decode) < 100_000


def test_what_cannot_be_encoded_is_a_typed_error():
    for wrong in ({"noise_seed": 2**64}, {"task": "\ud800"}, {"task": object()}):
        with pytest.raises(wire.BadBody):
            wire.OBSERVATION.encode(msgspec.structs.replace(observation(), **wrong))


def test_all_images_together_are_bounded():
    side = 2048
    image = {"codec": "jpeg", "shape": [side, side, 3], "data": b"x"}
    images = {str(i): image for i in range(limits.MAX_OBSERVATION_PIXELS // side**2)}
    wire.OBSERVATION.decode(msgspec.msgpack.encode({"images": images}))
    problem = problem_of(
        wire.OBSERVATION, {"images": images, "history": [{"images": {"a": image}}]}
    )
    assert "pixels" in problem


def test_prefixes_and_chunks_are_matrices_of_one_shape():
    matrix, longer = wire.encode_tensor(ACTIONS), wire.encode_tensor(np.zeros((3, 2), "f4"))
    for wrong in (wire.encode_tensor(STATE), wire.encode_tensor(ACTIONS.astype("f8")), longer):
        with pytest.raises(wire.BadTensor):
            wire.Observation(prefix_model=matrix, prefix_robot=wrong)
        with pytest.raises(wire.BadTensor):
            msgspec.structs.replace(chunk(), chunk_robot=wrong)


def test_an_image_crosses_in_rgb():
    message = wire.OBSERVATION.decode(wire.OBSERVATION.encode(observation()))
    pixels = wire.decode_image(message.images["observation.images.top"])
    np.testing.assert_array_equal(pixels, RGB)


def test_no_field_could_hold_a_foreign_instant():
    """Durations and the echoed client clock are the only times on the wire."""
    names = {field.name for _, m in MESSAGES.values() for field in msgspec.structs.fields(m)}
    times = {name for name in names if name.endswith(("_ns", "_ms", "_s", "_at", "time", "stamp"))}
    of_robots = {"state_s", "age_s", "action_age_ms", "buffer_ms"}
    of_robots |= {"round_trip_ms", "round_trip_p95_ms"}
    assert times - of_robots == {
        "client_mono_ns",
        "queue_wait_ms",
        "prepare_ms",
        "inference_ms",
        "decode_ms",
    }


@pytest.mark.parametrize(("offer", "agreed"), [((1, 1), 1), ((1, 9), 1), ((0, 1), 1)])
def test_the_newest_common_version_is_agreed_on(offer, agreed):
    assert wire.agree(*offer) == agreed


@pytest.mark.parametrize("offer", [(2, 3), (0, 0), (9, 1)])
def test_without_a_common_version_both_ranges_are_named(offer):
    with pytest.raises(wire.NoCommonVersion, match=f"{offer[0]} to {offer[1]}.* 1 to 1"):
        wire.agree(*offer)
