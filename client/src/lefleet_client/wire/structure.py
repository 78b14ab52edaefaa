"""What a body is made of, before anything is made of it: a walk over the heads of its items.

A decoder makes objects of whatever a sender packs: millions of unknown fields, one key again and
again, strings of megabytes. Here nothing is made. Text and binary data are skipped by their length,
and the walk ends at the first item that is too much.
"""

from lefleet_client.wire.errors import BadBody
from lefleet_client.wire.limits import MAX_DEPTH, MAX_KEY_BYTES, BodyLimits

_DATA, _TEXT, _LIST, _MAP, _REFUSED = range(5)


def _heads() -> tuple[tuple[int, int, int], ...]:
    """For each first byte: the kind of item, the bytes of its length, and its length without any.

    Numbers, booleans and nil count as data of a known length.
    """
    heads = [(_DATA, 0, 0)] * 128
    heads += [(_MAP, 0, size) for size in range(16)]
    heads += [(_LIST, 0, size) for size in range(16)]
    heads += [(_TEXT, 0, size) for size in range(32)]
    heads += [(_DATA, 0, 0), (_REFUSED, 0, 0), (_DATA, 0, 0), (_DATA, 0, 0)]  # nil, -, no, yes
    heads += [(_DATA, size, 0) for size in (1, 2, 4)]
    heads += [(_REFUSED, 0, 0)] * 3  # Extensions.
    heads += [(_DATA, 0, size) for size in (4, 8, 1, 2, 4, 8, 1, 2, 4, 8)]  # Floats, integers.
    heads += [(_REFUSED, 0, 0)] * 5  # Extensions.
    heads += [(_TEXT, size, 0) for size in (1, 2, 4)]
    heads += [(_LIST, size, 0) for size in (2, 4)]
    heads += [(_MAP, size, 0) for size in (2, 4)]
    heads += [(_DATA, 0, 0)] * 32
    return tuple(heads)


_HEADS = _heads()


def require_structure(data: bytes | memoryview, limits: BodyLimits, max_fields: int) -> None:
    """Check that `data` is one item within the limits, and that no map has a key twice.

    `max_fields` is for the outermost map, which is the message.

    A list or map announces how many items it has, so one that has too many is refused at its head:
    the work is bounded by `limits.max_items`, whatever the size of `data`.
    """
    at, items = 0, 1
    # What the walk is in: how many items of it are left, and the keys so far if it is a map.
    left = 1
    keys: set[bytes] | None = None
    outer: list[tuple[int, set[bytes] | None]] = []
    field = b""
    while left or outer:
        if not left:
            left, keys = outer.pop()
            continue
        if at >= len(data):
            raise BadBody("it is cut off")
        kind, length_bytes, length = _HEADS[data[at]]
        start = at + 1 + length_bytes
        if length_bytes:
            length = int.from_bytes(data[at + 1 : start], "big")
        is_key = keys is not None and left % 2 == 0
        left -= 1
        if kind in (_LIST, _MAP) and not is_key:
            at = start
            outer.append((left, keys))
            left, keys = (2 * length, set()) if kind == _MAP else (length, None)
            items += left
            if items > limits.max_items:
                raise BadBody(f"it has more than {limits.max_items} items")
            _require_place(len(outer), length, max_fields)
            continue
        at = start + length
        if kind == _TEXT and length > limits.max_text:
            name = field[:80].decode(errors="replace")
            raise BadBody(f"{name!r}: a text of {length} bytes, above {limits.max_text}")
        if kind == _REFUSED:
            raise BadBody("it has an item that is no number, text, data, list or map")
        if keys is not None and is_key:
            if kind != _TEXT or length > MAX_KEY_BYTES:
                raise BadBody(f"it has a key that is no text of at most {MAX_KEY_BYTES} bytes")
            if at > len(data):
                raise BadBody("it is cut off")
            field = bytes(data[start:at])
            _add_key(keys, field)
    if at != len(data):
        raise BadBody("it is cut off" if at > len(data) else f"{len(data) - at} bytes follow it")


def _require_place(depth: int, length: int, max_fields: int) -> None:
    if depth > MAX_DEPTH:
        raise BadBody(f"it is nested deeper than {MAX_DEPTH}")
    if depth == 1 and length > max_fields:
        raise BadBody(f"it has {length} fields, above {max_fields}")


def _add_key(keys: set[bytes], key: bytes) -> None:
    if key in keys:
        raise BadBody(f"it has the key {key[:80]!r} twice")
    keys.add(key)
