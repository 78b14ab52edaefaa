"""Schema versions: which ones this code speaks, and how two sides agree on one."""

from lefleet_client.wire.errors import NoCommonVersion

SCHEMA_VERSION = 1
OLDEST_VERSION = 1


def agree(oldest: int, newest: int) -> int:
    """The newest version that both sides know; the arguments are what the other side knows.

    >>> agree(1, 3)
    1
    """
    version = min(newest, SCHEMA_VERSION)
    if version < max(oldest, OLDEST_VERSION):
        raise NoCommonVersion(
            f"schema versions {oldest} to {newest} are offered, "
            f"{OLDEST_VERSION} to {SCHEMA_VERSION} are known here: update the older side"
        )
    return version
