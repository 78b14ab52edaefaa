"""What can be wrong with bytes and names: one type for each border that they cross."""


def excerpt(text: str) -> str:
    """At most 200 characters: the beginning names a fault, the end the field.

    >>> excerpt("x" * 1_000_000)[118:125]
    'xx ... '
    """
    return text if len(text) <= 200 else f"{text[:120]} ... {text[-75:]}"


class WireError(ValueError):
    """Base of all errors of the wire.

    It is a ValueError because msgspec then adds the path of the field in which it happened.
    """


class BadKey(WireError):
    """A name cannot be part of a key, or a key is not of the tree."""


class BadHeader(WireError):
    """The attachment of a message is no header; `reason` is a word to count by."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class BadBody(WireError):
    """A body is too large, is no MessagePack, or breaks its schema."""


class BadTensor(WireError):
    """Dtype, shape and data do not belong together."""


class BadImage(WireError):
    """Not an RGB image, or not the one that it says it is."""


class NoCommonVersion(WireError):
    """Two sides know no schema version in common."""
