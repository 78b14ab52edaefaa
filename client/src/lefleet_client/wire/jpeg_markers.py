"""What a JPEG may consist of: one baseline frame, each component in one scan, and an end.

A decoder does whatever a file asks for, and goes over the whole image for each scan: a megabyte of
empty scans takes it many seconds. So all markers are looked at before it sees the file.
"""

import struct

import numpy as np
from numpy.typing import NDArray

from lefleet_client.wire.errors import BadImage

_FF = 0xFF
_START, _END = b"\xff\xd8", 0xD9
_FRAMES = (0xC0, 0xC1)
# Progressive, lossless and arithmetic ones.
_OTHER_FRAMES = frozenset(range(0xC2, 0xD0)) - {0xC4, 0xC8, 0xCC}
_SCAN = 0xDA
# Tables of codes, of quantisation, restart interval, comment, and what applications add. No other
# marker is needed; some of them have no length, and what follows would be read in two ways.
_OTHERS = frozenset((0xC4, 0xDB, 0xDD, 0xFE, *range(0xE0, 0xF0)))
_MAX_SEGMENTS = 64
_BITS = 8
_WINDOW = 1 << 18
"""Bytes of a scan that are searched at once, which bounds the memory of the search."""


def jpeg_shape(data: memoryview) -> tuple[int, int, int]:
    """Height, width and channels; BadImage where the file is more than one baseline image."""
    if data[:2] != _START:
        raise BadImage("the data is not a JPEG")
    try:
        return _walk(data)
    except (struct.error, IndexError):
        raise BadImage("the JPEG is cut off") from None


def _walk(data: memoryview) -> tuple[int, int, int]:
    at = 2
    shape = (0, 0, 0)
    unscanned: set[int] = set()
    for _ in range(_MAX_SEGMENTS):
        prefix, marker = data[at], data[at + 1]
        if prefix == _FF and marker == _END:
            if unscanned or not shape[2]:
                raise BadImage("the JPEG ends before its last component")
            if at + 2 != len(data):
                raise BadImage(f"{len(data) - at - 2} bytes follow the end of the JPEG")
            return shape
        if marker in _OTHER_FRAMES:
            raise BadImage("the JPEG is not a baseline one")
        if prefix != _FF or marker not in (*_FRAMES, _SCAN, *_OTHERS):
            raise BadImage(f"the JPEG has {prefix:02x} {marker:02x} where a marker must be")
        (length,) = struct.unpack_from(">H", data, at + 2)
        segment = data[at + 4 : at + 2 + length]
        at += 2 + length
        if marker in _FRAMES:
            if shape[2]:
                raise BadImage("the JPEG has two frame headers")
            shape, unscanned = _frame(segment)
        elif marker == _SCAN:
            unscanned -= _scan(segment, unscanned)
            at = _end_of_scan(data, at)
    raise BadImage(f"the JPEG has more than {_MAX_SEGMENTS} segments")


def _frame(segment: memoryview) -> tuple[tuple[int, int, int], set[int]]:
    """The shape, and the identifiers of its components."""
    bits, height, width, channels = struct.unpack_from(">BHHB", segment)
    components = set(segment[6::3])
    if bits != _BITS or len(segment) != 6 + 3 * channels or len(components) != channels:
        raise BadImage("the JPEG's frame header is wrong")
    return (height, width, channels), components


def _scan(segment: memoryview, unscanned: set[int]) -> set[int]:
    """The components of a scan, which no scan before it had."""
    count = segment[0]
    components = set(segment[1 : 1 + 2 * count : 2])
    if len(segment) != 4 + 2 * count or len(components) != count:
        raise BadImage("the JPEG has a wrong scan header")
    if not components or not components <= unscanned:
        raise BadImage("the JPEG has more than one scan for a component, or one without any")
    return components


def _end_of_scan(data: memoryview, at: int) -> int:
    """Where the next marker is: FF, but neither a data byte FF, nor a restart, nor a fill byte."""
    octets: NDArray[np.uint8] = np.frombuffer(data, np.uint8)
    while at + 1 < len(octets):
        places = at + np.flatnonzero(octets[at : min(at + _WINDOW, len(octets) - 1)] == _FF)
        following = octets[places + 1]
        is_marker = (following != 0) & (following != _FF) & (following & 0xF8 != 0xD0)
        if is_marker.any():
            return int(places[is_marker.argmax()])
        at += _WINDOW
    raise BadImage("the JPEG is cut off")
