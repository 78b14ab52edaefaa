"""The header: 27 bytes, and why something is not one."""

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet_client.wire import SCHEMA_VERSION, BadHeader, Header, MessageType
from lefleet_client.wire.header import HEADER_BYTES
from tests.client.wire.samples import HEADER

HEADERS = st.builds(
    Header,
    message_type=st.sampled_from(MessageType),
    seq_id=st.integers(0, 2**64 - 1),
    episode_id=st.integers(0, 2**32 - 1),
    client_mono_ns=st.integers(-(2**63), 2**63 - 1),
    session_epoch=st.integers(0, 2**32 - 1),
    schema_version=st.just(SCHEMA_VERSION),
)


@given(HEADERS)
def test_round_trip(header):
    data = header.pack()
    assert len(data) == HEADER_BYTES == 27
    assert Header.unpack(data) == header


@pytest.mark.parametrize("size", [*range(HEADER_BYTES), HEADER_BYTES + 1, 1000])
def test_another_length_is_refused(size):
    with pytest.raises(BadHeader) as caught:
        Header.unpack((HEADER.pack() * 40)[:size])
    assert caught.value.reason == "length"


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_a_typed_error(data):
    with contextlib.suppress(BadHeader):
        assert Header.unpack(data).pack() == data


@pytest.mark.parametrize("field", ["seq_id", "episode_id", "session_epoch"])
@pytest.mark.parametrize("value", [-1, 2**64])
def test_a_value_out_of_range_is_a_typed_error(field, value):
    with pytest.raises(BadHeader):
        HEADER._replace(**{field: value}).pack()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        (b"", "length"),
        (HEADER.pack()[:-1], "length"),
        (b"\x02\x00" + HEADER.pack()[2:], "version"),
        (b"\x00\x00" + HEADER.pack()[2:], "version"),
        (HEADER.pack()[:2] + b"\x09" + HEADER.pack()[3:], "type"),
    ],
)
def test_a_bad_header_has_a_reason_to_count_by(bad, reason):
    with pytest.raises(BadHeader) as caught:
        Header.unpack(bad)
    assert caught.value.reason == reason
