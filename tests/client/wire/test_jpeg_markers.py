"""Markers of a JPEG: honest files pass, and a hostile one costs no more than its pixels."""

import contextlib
import io
import random
import struct

import cv2
import numpy as np
import pytest
import simplejpeg
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet_client.wire import BadImage, Image, decode_image
from lefleet_client.wire import jpeg as jpeg_module
from lefleet_client.wire.jpeg_markers import jpeg_shape
from tests.client.wire.memory import peak_bytes
from tests.client.wire.mutation import mutated

SHAPE = (480, 640, 3)
SHAPES = [(1, 1, 3), (1, 17, 3), (8, 8, 3), (33, 47, 3), (240, 320, 3), SHAPE, (1080, 1920, 3)]


def picture(shape: tuple[int, int, int], kind: str = "smooth") -> np.ndarray:
    height, width, _ = shape
    if kind == "noise":
        return np.random.default_rng(0).integers(0, 256, shape, np.uint8)
    rows, columns = np.mgrid[0:height, 0:width]
    planes = (rows % 256, columns % 256, (rows * columns // 7) % 256)
    return np.stack(planes, axis=2).astype(np.uint8)


def simplejpeg_file(pixels: np.ndarray, quality: int, sampling: str = "420") -> bytes:
    return simplejpeg.encode_jpeg(pixels, quality, "RGB", sampling)


def opencv_file(pixels: np.ndarray, *options: int) -> bytes:
    return cv2.imencode(".jpg", pixels, options)[1].tobytes()


def pillow_file(pixels: np.ndarray, **options) -> bytes:
    images = pytest.importorskip("PIL.Image")
    out = io.BytesIO()
    images.fromarray(pixels).save(out, "JPEG", **options)
    return out.getvalue()


def require_decodes(data: bytes, shape: tuple[int, int, int]) -> None:
    image = Image("jpeg", shape, memoryview(data))
    for codec in (jpeg_module.SimpleJpegCodec(), jpeg_module.OpenCvCodec()):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(jpeg_module, "_codec", codec)
            assert decode_image(image).shape == shape


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("kind", ["smooth", "noise"])
@pytest.mark.parametrize("sampling", ["420", "422", "444", "440", "411"])
def test_every_size_and_sampling_passes(shape, kind, sampling):
    require_decodes(simplejpeg_file(picture(shape, kind), 90, sampling), shape)


@pytest.mark.parametrize("quality", [1, 2, 10, 24, 25, 50, 75, 95, 99, 100])
def test_every_quality_passes(quality):
    pixels = picture((64, 80, 3), "noise")
    require_decodes(simplejpeg_file(pixels, quality, "444"), pixels.shape)
    require_decodes(opencv_file(pixels, cv2.IMWRITE_JPEG_QUALITY, quality), pixels.shape)
    require_decodes(pillow_file(pixels, quality=quality), pixels.shape)


@pytest.mark.parametrize(
    "options",
    [
        (cv2.IMWRITE_JPEG_RST_INTERVAL, 1),
        (cv2.IMWRITE_JPEG_RST_INTERVAL, 7),
        (cv2.IMWRITE_JPEG_OPTIMIZE, 1),
        (cv2.IMWRITE_JPEG_LUMA_QUALITY, 20, cv2.IMWRITE_JPEG_CHROMA_QUALITY, 90),
    ],
)
def test_what_opencv_writes_passes(options):
    for kind in ("smooth", "noise"):
        require_decodes(opencv_file(picture(SHAPE, kind), *options), SHAPE)


@pytest.mark.parametrize(
    "options",
    [
        {"optimize": True},
        {"subsampling": 0},
        {"subsampling": 2, "restart_marker_blocks": 1},
        {"restart_marker_rows": 1},
        {"comment": b"x" * 60_000},
        {"exif": b"Exif\0\0MM\0*" + bytes(60_000)},
        {"icc_profile": bytes(100_000)},
        {"dpi": (300, 300)},
        {"streamtype": 0},
        {"keep_rgb": True},
    ],
    ids=str,
)
def test_what_pillow_writes_passes(options):
    for kind in ("smooth", "noise"):
        require_decodes(pillow_file(picture((64, 80, 3), kind), **options), (64, 80, 3))


def test_a_progressive_file_is_refused():
    for data in (
        opencv_file(picture(SHAPE), cv2.IMWRITE_JPEG_PROGRESSIVE, 1),
        pillow_file(picture(SHAPE), progressive=True),
    ):
        with pytest.raises(BadImage, match="baseline"):
            jpeg_shape(memoryview(data))


GOOD = simplejpeg_file(picture(SHAPE), 90)
SCAN_AT = GOOD.index(b"\xff\xda")
SCAN = GOOD[SCAN_AT : SCAN_AT + 14]
BEFORE, ENTROPY = GOOD[:SCAN_AT], GOOD[SCAN_AT + 14 : -2]
END = b"\xff\xd9"


def scan_of(*components: int) -> bytes:
    pairs = b"".join(bytes([one, 0]) for one in components)
    return b"\xff\xda" + struct.pack(">HB", 6 + len(pairs), len(components)) + pairs + b"\0\x3f\0"


def problem_of(data: bytes) -> str:
    with pytest.raises(BadImage) as caught:
        decode_image(Image("jpeg", SHAPE, memoryview(data)))
    return str(caught.value)


def require_no_decoder(monkeypatch) -> None:
    class Untouched:
        def decode(self, data, shape):
            raise AssertionError("the decoder was called")

    monkeypatch.setattr(jpeg_module, "_codec", Untouched())


@pytest.mark.parametrize(
    ("scan", "entropy"),
    [
        (SCAN, b""),
        (scan_of(1), b""),
        (scan_of(3), b"\0"),
        (SCAN, ENTROPY),
        (scan_of(), b""),
        (scan_of(9), b""),
        (scan_of(1, 1), b""),
    ],
    ids=["all", "one", "last", "whole", "none", "unknown", "twice"],
)
@pytest.mark.parametrize("count", [4, 70_000])
def test_a_scan_bomb_never_reaches_a_decoder(monkeypatch, scan, entropy, count):
    require_no_decoder(monkeypatch)
    count = min(count, 1_000_000 // len(scan + entropy) + 4)
    assert "scan" in problem_of(BEFORE + (scan + entropy) * count + END)


def test_each_component_may_have_a_scan_of_its_own():
    data = BEFORE + b"".join(scan_of(one) + b"\0" for one in (1, 2, 3)) + END
    assert jpeg_shape(memoryview(data)) == SHAPE
    missing = BEFORE + b"".join(scan_of(one) + b"\0" for one in (1, 2)) + END
    assert "ends before" in problem_of(missing)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (GOOD + b"\0", "1 bytes follow"),
        (GOOD + GOOD, f"{len(GOOD)} bytes follow"),
        (GOOD[:-2], "cut off"),
        (GOOD[:-1], "cut off"),
        (BEFORE, "cut off"),
        (BEFORE + END, "ends before"),
        (BEFORE[:2] + SCAN + BEFORE[2:] + END, "scan"),
        (BEFORE[:2] + b"\xff\xdb\0\2" * 100_000 + BEFORE[2:] + SCAN + ENTROPY + END, "64 segments"),
        (BEFORE + SCAN + ENTROPY + b"\xff\xfe\0\2" * 100_000 + END, "64 segments"),
        (BEFORE + b"\0" + SCAN + ENTROPY + END, "where a marker must be"),
        (BEFORE + b"\xff\xdc\0\4\0\1" + SCAN + ENTROPY + END, "where a marker must be"),
        (BEFORE + b"\xff\xcc\0\2" + SCAN + ENTROPY + END, "where a marker must be"),
        (BEFORE + b"\xff\xc9\0\2" + SCAN + ENTROPY + END, "baseline"),
        (BEFORE + SCAN + ENTROPY + b"\xff\x01" + END, "where a marker must be"),
        (BEFORE + b"\xff\xfe\xff\xff" + SCAN, "cut off"),
        (b"", "not a JPEG"),
        (b"\xff\xd8", "cut off"),
    ],
)
def test_a_file_that_is_more_or_less_than_an_image_is_refused(monkeypatch, data, words):
    require_no_decoder(monkeypatch)
    assert words in problem_of(data)


def test_a_second_frame_header_is_refused(monkeypatch):
    require_no_decoder(monkeypatch)
    at = GOOD.index(b"\xff\xc0")
    frame = GOOD[at : at + 19]
    assert "two frame headers" in problem_of(BEFORE + frame + SCAN + ENTROPY + END)
    twelve_bits = GOOD.replace(frame, frame[:4] + b"\x0c" + frame[5:])
    assert "frame header is wrong" in problem_of(twelve_bits)


@pytest.mark.parametrize("filler", [b"\xff\0", b"\xff\xd0", b"\xff\xff", b"\xff\xd7\0", b"\0"])
def test_the_search_for_the_end_of_a_scan_works_in_windows(filler):
    """A file of FF alone, or of restarts, takes some passes of numpy and little memory."""
    data = memoryview(BEFORE + SCAN + filler * 900_000 + b"\0" + END)

    def walk() -> None:
        assert jpeg_shape(data) == SHAPE

    assert peak_bytes(walk) < 10_000_000


def test_more_bytes_than_the_pixels_can_need_are_refused():
    with pytest.raises(BadImage, match=r"a JPEG of shape .* needs at most 131084 bytes"):
        Image("jpeg", (1, 2, 3), memoryview(bytes(131_085)))


def test_8192_x_4096_in_166_bytes_takes_no_memory(monkeypatch):
    require_no_decoder(monkeypatch)
    frame = b"\xff\xc0\0\x11\x08" + struct.pack(">HH", 4096, 8192) + b"\3\1\x11\0\2\x11\0\3\x11\0"
    data = memoryview((b"\xff\xd8" + frame + SCAN).ljust(164, b"\0") + END)

    def decode() -> None:
        with pytest.raises(BadImage, match="pixels"):
            decode_image(Image("jpeg", (4096, 8192, 3), data))
        with pytest.raises(BadImage, match="the JPEG is"):
            decode_image(Image("jpeg", SHAPE, data))

    assert peak_bytes(decode) < 100_000


SMALL = simplejpeg_file(picture((32, 48, 3)), 90)


PARTS = [SCAN, scan_of(1), b"\xff\xd9", b"\xff\xc2", b"\xff\xd0", b"\xff\xdd\0\4\0\1"]


def decode_mutated(rng: random.Random) -> None:
    image = Image("jpeg", (32, 48, 3), memoryview(mutated(SMALL, rng, PARTS)))
    for codec in (jpeg_module.SimpleJpegCodec(), jpeg_module.OpenCvCodec()):
        with contextlib.suppress(BadImage), pytest.MonkeyPatch.context() as patch:
            patch.setattr(jpeg_module, "_codec", codec)
            assert decode_image(image).shape == (32, 48, 3)


@given(st.randoms(use_true_random=False))
@settings(max_examples=300)
def test_a_mutated_file_is_an_image_or_a_typed_error(rng):
    decode_mutated(rng)


@pytest.mark.chaos
def test_very_many_mutated_files():
    rng = random.Random(0)
    for _ in range(300_000):
        decode_mutated(rng)
