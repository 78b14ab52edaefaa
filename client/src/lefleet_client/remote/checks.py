"""What servers and robots say, checked before anybody acts on it or shows it: on an open network
anybody may say it.

Each check is a pure function that gives what is wrong, to end a sentence; empty if nothing is.
"""

from collections.abc import Iterator

import numpy as np

from lefleet_client import wire
from lefleet_client.remote.observation import RobotFeatures

LONGEST_REASON = 1000
_MORE_CHUNK_BYTES = 64 * 1024
_MOST_NAMES, _MOST_NAMES_BYTES = 3000, 48 * 1024
"""A robot without features of its own repeats the contract's names in its session question."""


def shown(text: str, longest: int = 200) -> str:
    """Text of another machine as errors and log lines repeat it: cut, and on one line.

    >>> shown("one\\ntwo", longest=5)
    'one?t...'
    """
    end = "..." if len(text) > longest else ""
    return "".join(letter if letter.isprintable() else "?" for letter in text[:longest]) + end


def status_fault(key: str, status: wire.ServerStatus) -> str:
    """Why a status cannot be that of the server whose key it came from."""
    served = status.capabilities
    try:
        service_keys = wire.ServiceKeys(served.model, served.revision, status.service)
        own = service_keys.server(status.server).status
    except wire.BadKey as error:
        return shown(str(error))
    if own != key:
        return f"its names are those of {shown(own)}"
    for name in (status.service, status.server, status.instance_id):
        if not name.isprintable():
            return f"the name {shown(name)!r} has control characters"
    return _capabilities_fault(served)


def robot_fault(key: str, status: wire.RobotStatus) -> str:
    """Why a status cannot be that of the robot whose key it came from, or must not be shown."""
    try:
        own = wire.matching_robots(status.client_id).status
    except wire.BadKey as error:
        return shown(str(error))
    if own != key:
        return f"its name is that of {shown(own)}"
    texts = (getattr(status, name) for name in status.__struct_fields__)
    for text in (*texts, *status.warnings):
        if isinstance(text, str) and not text.isprintable():
            return f"{shown(text)!r} has control characters"
    return ""


def chunk_fault(served: wire.Capabilities, chunk: wire.ActionChunk) -> str:
    """Why the policy of a session cannot have made this chunk, or no robot may execute it."""
    names = served.contract.action_names
    rows, columns = chunk.chunk_robot.shape
    if (rows, columns) != (served.chunk_size, len(names)):
        return (
            f"it is {rows} x {columns}, not {served.chunk_size} x {len(names)}: "
            f"{shown(', '.join(names))}"
        )
    for name in ("chunk_model", "chunk_robot"):
        if not np.isfinite(wire.decode_tensor(getattr(chunk, name))).all():
            return f"{name} has NaN or infinity"
    return ""


def chunk_bytes(served: wire.Capabilities) -> int:
    """The largest body of a chunk of this policy: two tensors, and the fields of later versions."""
    tensors = 2 * served.chunk_size * len(served.contract.action_names) * 4
    return min(tensors + _MORE_CHUNK_BYTES, wire.CHUNK.limits.max_bytes)


def _capabilities_fault(served: wire.Capabilities) -> str:
    texts = list(_texts(served))
    for text in texts:
        if not text.isprintable():
            return f"{shown(text)!r} has control characters"
    size = sum(len(text.encode()) for text in texts)
    if len(texts) > _MOST_NAMES or size > _MOST_NAMES_BYTES:
        return f"it has {len(texts)} names of {size} bytes"
    if not served.digest:
        return "it has no digest"
    if not 1 <= served.n_action_steps <= served.chunk_size:
        return f"{served.n_action_steps} of {served.chunk_size} steps are executed"
    if not 1 <= served.n_obs_steps <= wire.MAX_HISTORY + 1:
        return f"n_obs_steps is {served.n_obs_steps}"
    pixels = [height * width for height, width, _ in served.contract.cameras.values()]
    if max(pixels, default=0) > wire.MAX_IMAGE_PIXELS or sum(pixels) > wire.MAX_OBSERVATION_PIXELS:
        return f"its cameras have {sum(pixels)} pixels, which fit into no observation"
    try:
        RobotFeatures.of(served.contract)
    except ValueError as error:
        return shown(str(error))
    return ""


def _texts(served: wire.Capabilities) -> Iterator[str]:
    contract = served.contract
    yield from (served.model, served.revision, served.digest, served.serving_mode)
    yield from (contract.policy_type, contract.robot_type)
    yield from contract.action_names
    yield from contract.cameras
    for key, names in contract.vectors.items():
        yield key
        yield from names
