"""Keys and key expressions, under Zenoh's own rules on every transport."""

import zenoh

from lefleet_client.transport.errors import BadExpression


def expression(text: str) -> zenoh.KeyExpr:
    """A key, or a pattern such as `a/*/b`."""
    try:
        return zenoh.KeyExpr(text)
    except zenoh.ZError:
        raise BadExpression(f"{text[:200]!r} is no key expression") from None


def concrete(text: str) -> zenoh.KeyExpr:
    """A key without wildcards: the name of one place."""
    if is_pattern(text):
        raise BadExpression(f"{text[:200]!r} is a pattern, and one key is needed")
    return expression(text)


def is_pattern(text: str) -> bool:
    return "*" in text
