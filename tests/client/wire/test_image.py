"""Images: RGB stays RGB, and a picture cannot be larger than it says."""

import struct
import subprocess
import sys

import numpy as np
import pytest
import simplejpeg
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lefleet_client.wire import (
    BadImage,
    Image,
    decode_image,
    encode_image,
)
from lefleet_client.wire import jpeg as jpeg_module
from tests.client.wire.memory import peak_bytes

RED, GREEN, BLUE = (230, 20, 20), (20, 230, 20), (20, 20, 230)


def stripes() -> np.ndarray:
    """Red, green and blue, each 16 pixels wide."""
    row = np.repeat(np.array([RED, GREEN, BLUE], np.uint8), 16, axis=0)
    return np.broadcast_to(row, (32, 48, 3)).copy()


def jpeg() -> bytes:
    return bytes(encode_image(stripes(), quality=90).data)


SAMPLE = jpeg()


@pytest.fixture(
    params=[jpeg_module.SimpleJpegCodec, jpeg_module.OpenCvCodec], scope="module", autouse=True
)
def library(request):
    """Either library behind the same two functions."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jpeg_module, "_codec", request.param())
        yield


@pytest.mark.parametrize("quality", [0, 50, 90, 100])
def test_red_stays_red(quality):
    pixels = decode_image(encode_image(stripes(), quality))
    for column, colour in ((8, RED), (24, GREEN), (40, BLUE)):
        np.testing.assert_allclose(pixels[16, column], colour, atol=12)


def test_the_jpeg_itself_is_rgb_for_any_other_reader():
    pixels = simplejpeg.decode_jpeg(jpeg(), colorspace="RGB")
    np.testing.assert_allclose(pixels[16, 8], RED, atol=12)
    np.testing.assert_allclose(pixels[16, 40], BLUE, atol=12)


def test_jpegs_are_4_2_0():
    assert simplejpeg.decode_jpeg_header(jpeg())[3] == "420"


@given(npst.arrays(np.uint8, st.tuples(st.integers(1, 20), st.integers(1, 20), st.just(3))))
def test_raw_is_exact_and_jpeg_keeps_the_shape(array):
    np.testing.assert_array_equal(decode_image(encode_image(array, 0)), array)
    assert decode_image(encode_image(array, 90)).shape == array.shape


def test_a_strided_image_arrives_as_it_was():
    array = np.random.default_rng(0).integers(0, 255, (8, 12, 3), np.uint8)[::2, ::-1]
    np.testing.assert_array_equal(decode_image(encode_image(array, 0)), array)


@pytest.mark.parametrize(
    "array",
    [
        np.zeros((4, 4), np.uint8),
        np.zeros((4, 4, 4), np.uint8),
        np.zeros((3, 4, 4), np.uint8),
        np.zeros((4, 4, 3), np.float32),
        np.zeros((0, 4, 3), np.uint8),
        np.zeros((1, 70000, 3), np.uint8),
    ],
    ids=lambda array: f"{array.dtype}{array.shape}",
)
def test_what_is_no_rgb_image_is_refused(array):
    with pytest.raises(BadImage):
        encode_image(array, 90)


@pytest.mark.parametrize("quality", [-1, 101])
def test_another_quality_is_refused(quality):
    with pytest.raises(BadImage, match="quality"):
        encode_image(stripes(), quality)


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
@pytest.mark.parametrize(
    "shape", [(-1, 4, 3), (0, 4, 3), (4, 4, 4), (2**40, 2**40, 3), (4096, 3073, 3)]
)
def test_hostile_shapes_are_refused(codec, shape):
    with pytest.raises(BadImage):
        Image(codec, shape, memoryview(b""))


def test_another_codec_is_refused():
    with pytest.raises(BadImage, match="codec"):
        Image("png", (2, 2, 3), memoryview(bytes(12)))


def test_raw_data_of_another_size_is_refused():
    with pytest.raises(BadImage, match="bytes"):
        Image("raw", (2, 2, 3), memoryview(bytes(11)))


@pytest.mark.parametrize("end", range(0, len(SAMPLE), 7))
def test_a_truncated_jpeg_is_a_typed_error(end):
    with pytest.raises(BadImage):
        decode_image(Image("jpeg", (32, 48, 3), memoryview(SAMPLE[:end])))


@given(st.integers(2, len(SAMPLE) - 1), st.integers(0, 255))
def test_a_damaged_jpeg_is_an_image_or_a_typed_error(place, value):
    data = bytearray(SAMPLE)
    data[place] = value
    try:
        pixels = decode_image(Image("jpeg", (32, 48, 3), memoryview(data)))
    except BadImage:
        return
    assert pixels.shape == (32, 48, 3)


@given(st.binary(max_size=200), st.booleans())
def test_random_bytes_are_a_typed_error(data, starts_like_one):
    data = b"\xff\xd8" + data if starts_like_one else data
    with pytest.raises(BadImage):
        decode_image(Image("jpeg", (32, 48, 3), memoryview(data)))


def test_a_jpeg_of_another_size_than_it_says_takes_no_memory():
    data = jpeg()
    at = data.index(struct.pack(">HH", 32, 48))
    bomb = memoryview(data[:at] + struct.pack(">HH", 65000, 65000) + data[at + 4 :])

    def decode() -> None:
        with pytest.raises(BadImage, match="65000"):
            decode_image(Image("jpeg", (32, 48, 3), bomb))

    assert peak_bytes(decode) < 100_000


def test_a_grey_jpeg_is_refused():
    grey = simplejpeg.encode_jpeg(np.zeros((32, 48, 1), np.uint8), colorspace="GRAY")
    with pytest.raises(BadImage, match="48, 1"):
        decode_image(Image("jpeg", (32, 48, 3), memoryview(grey)))


def test_a_progressive_jpeg_is_refused():
    data = memoryview(jpeg().replace(b"\xff\xc0", b"\xff\xc2"))
    with pytest.raises(BadImage, match="baseline"):
        decode_image(Image("jpeg", (32, 48, 3), data))


@pytest.mark.parametrize("marker", [0x00, 0x01, *range(0xD0, 0xDA)])
def test_a_marker_without_a_length_hides_no_frame_header(marker):
    """A decoder goes on right behind such a marker, and finds an image of another size there."""
    data = jpeg()
    at = data.index(b"\xff\xc0")
    frame = data[at : at + 2 + 17]
    assert struct.unpack(">H", frame[2:4]) == (17,)
    told = frame.replace(struct.pack(">HH", 32, 48), struct.pack(">HH", 24, 16))
    # Read as a length, the two bytes behind the marker lead to `told`, which a decoder skips.
    head = b"\xff\xd8\xff" + bytes([marker]) + frame
    told_at = 4 + 0xFFC0
    fill = b"\xff\xfe" + struct.pack(">H", 40_002) + bytes(40_000)
    size = told_at - len(head) - len(fill) - 4
    comment = bytes(size) + told + bytes(20)
    fill += b"\xff\xfe" + struct.pack(">H", len(comment) + 2) + comment
    evil = head + fill + data[2:at] + data[at + len(frame) :]
    assert evil[told_at : told_at + len(told)] == told
    with pytest.raises(BadImage, match=r"where a marker must be|ends before"):
        decode_image(Image("jpeg", (24, 16, 3), memoryview(evil)))


def test_the_search_for_the_frame_header_is_bounded():
    data = memoryview(b"\xff\xd8" + b"\xff" * 10_000 + jpeg()[2:])
    with pytest.raises(BadImage, match="ff ff where a marker must be"):
        decode_image(Image("jpeg", (32, 48, 3), data))


def test_a_note_about_orientation_does_not_turn_the_image():
    data = jpeg()
    # Exif with one entry: orientation 6, a quarter turn.
    entry = struct.pack(">HHIHH", 0x0112, 3, 1, 6, 0)
    exif = b"Exif\0\0" + b"MM\0*" + struct.pack(">IH", 8, 1) + entry + struct.pack(">I", 0)
    noted = data[:2] + b"\xff\xe1" + struct.pack(">H", len(exif) + 2) + exif + data[2:]
    pixels = decode_image(Image("jpeg", (32, 48, 3), memoryview(noted)))
    np.testing.assert_allclose(pixels[16, 8], RED, atol=12)


def test_without_simplejpeg_opencv_takes_over():
    code = """
import sys
sys.modules["simplejpeg"] = None
from lefleet_client.wire import jpeg
print(type(jpeg._codec).__name__)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert child.stdout.strip() == "OpenCvCodec"
