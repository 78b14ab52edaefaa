"""Golden bytes: any change but an added field with a default is a new schema version."""

from pathlib import Path

import msgspec
import pytest

from lefleet_client import wire
from tests.client.wire.samples import HEADER, MESSAGES

GOLDEN = Path(__file__).parent / "golden"


def golden(name: str) -> bytes:
    return bytes.fromhex((GOLDEN / f"{name}.hex").read_text())


@pytest.mark.parametrize("name", MESSAGES)
def test_each_body_has_its_golden_bytes(name):
    body, message = MESSAGES[name]
    assert body.encode(message).hex() == golden(name).hex()


@pytest.mark.parametrize("name", MESSAGES)
def test_golden_bytes_are_still_read(name):
    body, message = MESSAGES[name]
    assert body.decode(golden(name)) == message


def test_a_status_of_a_server_that_knew_no_warnings_is_still_read():
    body, message = MESSAGES["status"]
    raw = msgspec.msgpack.decode(body.encode(message))
    del raw["clients"][0]["warnings"]
    read = body.decode(msgspec.msgpack.encode(raw))
    assert read.clients[0].warnings == ()
    assert read.clients[0].client_id == message.clients[0].client_id


def test_the_header_has_its_golden_bytes():
    expected = "010002080706050403020114131211feffffffffffffff24232221"
    assert HEADER.pack().hex() == expected
    assert wire.Header.unpack(bytes.fromhex(expected)) == HEADER


def test_a_golden_jpeg_is_still_read():
    data = memoryview(golden("jpeg"))
    pixels = wire.decode_image(wire.Image("jpeg", (16, 48, 3), data))
    assert [pixels[8, column].argmax() for column in (8, 24, 40)] == [0, 1, 2]


def test_no_golden_file_is_left_over():
    assert {path.stem for path in GOLDEN.iterdir()} == {*MESSAGES, "jpeg"}
