"""May this robot have a session? Every check of the contract, as one pure function."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from lefleet.records.checkpoint import are_numbers
from lefleet.server.session import Session
from lefleet_client import wire

MORE_PIXELS = 16
"""An image may have so many times the pixels of training."""
FEWEST_PIXELS = 640 * 480
"""An image of this size is always accepted."""
UNUSED_PIXELS = 2 * 1920 * 1080
"""So many pixels may all images have together that a robot sends and the policy does not use."""

_FPS_TOLERANCE = 0.01
_ASPECT_TOLERANCE = 0.01
_REASON = 1000


@dataclass(frozen=True)
class HandshakeRules:
    """What a robot has to fit, as long as the server runs."""

    capabilities: wire.Capabilities
    service: str
    fps: float
    strict_fps: bool
    default_task: str
    pin_task: bool
    mode_reason: str
    max_sessions: int
    warnings: tuple[str, ...] = ()

    @property
    def contract(self) -> wire.Contract:
        return self.capabilities.contract


@dataclass(frozen=True)
class Occupancy:
    """What the server is doing at the moment of asking."""

    active: int
    """Sessions of other clients that keep their places."""
    holder: str
    """Full name of the client that has this client's segment in the key tree; may be empty."""
    load: float
    is_draining: bool


@dataclass(frozen=True)
class Accepted:
    """A session may be opened."""

    schema_version: int
    warnings: tuple[str, ...]


def check_handshake(
    asked: wire.SessionOpen, rules: HandshakeRules, occupancy: Occupancy
) -> Accepted | wire.SessionRejected:
    """The first check that fails, or what to warn of."""
    for check, reason in _objections(asked, rules, occupancy):
        return wire.SessionRejected(check=check, reason=reason[:_REASON], load=occupancy.load)
    version = wire.agree(asked.oldest_schema, asked.newest_schema)
    warnings = (text[:_REASON] for text in _warnings(asked, rules))
    return Accepted(version, (*rules.warnings, *warnings))


def giving_way(sessions: Iterable[Session], now_s: float, first_request_s: float) -> Session | None:
    """The session whose place a new robot may take when all places are taken.

    That is the oldest of those that are older than `first_request_s` and never sent an observation
    that the policy can take. One that has worked keeps its place, because robots pause.
    """
    silent = [
        one for one in sessions if not one.has_worked and now_s - one.opened_s >= first_request_s
    ]
    return min(silent, key=lambda one: one.opened_s, default=None)


def _objections(
    asked: wire.SessionOpen, rules: HandshakeRules, occupancy: Occupancy
) -> Iterator[tuple[str, str]]:
    if occupancy.is_draining:
        yield "draining", "the server is about to stop; another replica may take this robot"
    try:
        wire.agree(asked.oldest_schema, asked.newest_schema)
    except wire.NoCommonVersion as error:
        yield "schema", str(error)
    yield from _name_objections(asked, rules, occupancy)
    contract = rules.contract
    if asked.pin_digest and asked.pin_digest != rules.capabilities.digest:
        yield (
            "digest",
            f"the robot pins checkpoint {asked.pin_digest[:12]}, "
            f"this server has {rules.capabilities.digest[:12]}",
        )
    if difference := _difference(asked.action_names, contract.action_names):
        yield "action_names", difference
    yield from _vector_objections(asked, rules)
    if missing := sorted(set(contract.cameras) - set(asked.cameras)):
        yield "cameras", f"the policy also needs camera {', '.join(missing)}"
    for key in contract.cameras.keys() & asked.cameras.keys():
        if too_large := oversize(contract, key, asked.cameras[key]):
            yield "cameras", too_large
    if rules.strict_fps and not _is_close(asked.fps, rules.fps, _FPS_TOLERANCE):
        yield (
            "fps",
            f"the robot runs at {asked.fps:g} fps, the policy was trained at {rules.fps:g}",
        )
    if rules.pin_task and asked.task not in ("", rules.default_task):
        yield "task", f"this server only does {rules.default_task!r}, not {asked.task[:200]!r}"
    if occupancy.active >= rules.max_sessions:
        yield "capacity", _full(rules)


def oversize(contract: wire.Contract, key: str, shape: tuple[int, ...]) -> str:
    """Why an image is too large for a policy that all robots share; empty if it is not.

    Any resolution will do, but all robots wait for it: some policies compute on all its pixels.
    """
    height, width, _ = contract.cameras[key]
    limit = _most_pixels(contract, key)
    if shape[0] * shape[1] <= limit:
        return ""
    return (
        f"{key}: {shape[1]} x {shape[0]} is more than {limit} pixels, and the policy was trained "
        f"with {width} x {height}; resize it on the robot"
    )


def session_limits(asked: wire.SessionOpen, served: wire.Capabilities) -> wire.ObservationLimits:
    """How large an observation of this session may be: what the contract can need.

    Cameras that are announced and not used are never decoded, so they only count in bytes.
    """
    contract = served.contract
    used = {key: _most_pixels(contract, key) for key in contract.cameras}
    unused = {key: one for key, one in asked.cameras.items() if key not in used}
    share = UNUSED_PIXELS // max(1, len(unused))
    cameras = used | {key: min(one[0] * one[1], share) for key, one in unused.items()}
    vectors = {**asked.vectors, **contract.vectors}
    limits = wire.observation_limits(
        vectors={key: len(names) for key, names in vectors.items()},
        cameras=cameras,
        n_obs_steps=served.n_obs_steps,
        chunk_size=served.chunk_size,
        columns=len(contract.action_names),
    )
    return limits._replace(pixels=used)


def _most_pixels(contract: wire.Contract, key: str) -> int:
    height, width, _ = contract.cameras[key]
    return max(MORE_PIXELS * height * width, FEWEST_PIXELS)


def _name_objections(
    asked: wire.SessionOpen, rules: HandshakeRules, occupancy: Occupancy
) -> Iterator[tuple[str, str]]:
    """Two names may fold to one segment of the key tree: only the full ones tell them apart."""
    served = rules.capabilities
    names = {
        "model": (asked.model, served.model),
        "revision": (asked.revision, served.revision),
        "service": (asked.service, rules.service),
    }
    for field, (theirs, ours) in names.items():
        if theirs != ours:
            yield "name", f"{field}: the robot asks for {theirs!r}, this server is {ours!r}"
    if occupancy.holder not in ("", asked.client_id):
        yield (
            "name",
            f"client_id: {asked.client_id!r} and {occupancy.holder!r}, which has a session, are "
            "one name in the key tree; choose another one",
        )


def _vector_objections(asked: wire.SessionOpen, rules: HandshakeRules) -> Iterator[tuple[str, str]]:
    ours = rules.contract.vectors
    if missing := sorted(set(ours) - set(asked.vectors)):
        yield "vectors", f"the policy also needs {', '.join(missing)}"
    for key, names in ours.items():
        if difference := _difference(asked.vectors[key], names):
            yield "vectors", f"{key}: {difference}"


def _full(rules: HandshakeRules) -> str:
    if rules.capabilities.serving_mode == "exclusive":
        return f"the one session of this server is taken: {rules.mode_reason}"
    return f"all {rules.max_sessions} sessions are taken"


def other_size(contract: wire.Contract, key: str, shape: tuple[int, ...]) -> str:
    """How an image differs in size from those of training, for a person to read; empty if it does
    not. Most policies take any size, and see things larger or smaller than they learned them."""
    height, width, _ = contract.cameras[key]
    if shape[:2] == (height, width):
        return ""
    if not _is_close(shape[1] / shape[0], width / height, _ASPECT_TOLERANCE):
        return (
            f"{key}: {shape[1]} x {shape[0]} has another aspect ratio than the "
            f"{width} x {height} of training"
        )
    return f"{key}: {shape[1]} x {shape[0]}, the policy was trained with {width} x {height}"


def _warnings(asked: wire.SessionOpen, rules: HandshakeRules) -> Iterator[str]:
    contract = rules.contract
    for key in contract.cameras:
        if warning := other_size(contract, key, asked.cameras[key]):
            yield warning
    if unused := sorted(set(asked.cameras) - set(contract.cameras)):
        yield f"cameras: the policy does not look through {', '.join(unused)}"
    if unused := sorted(set(asked.vectors) - set(contract.vectors)):
        yield f"vectors: the policy takes no {', '.join(unused)}"
    if not _is_close(asked.fps, rules.fps, _FPS_TOLERANCE):
        yield f"fps: the robot runs at {asked.fps:g}, the policy was trained at {rules.fps:g}"
    if contract.robot_type and asked.robot_type and asked.robot_type != contract.robot_type:
        yield f"robot_type: {asked.robot_type}, the policy was trained on {contract.robot_type}"
    if asked.wants_rtc and not rules.capabilities.supports_rtc:
        yield (
            f"rtc: a policy of type {contract.policy_type} cannot do it; chunks replace each other"
        )


def _difference(theirs: tuple[str, ...], ours: tuple[str, ...]) -> str:
    """Where two lists of names first differ; empty when they do not.

    Where a contract only numbers its columns, because they have no names, sizes must be enough.
    """
    if len(theirs) != len(ours):
        return f"{len(theirs)} columns on the robot, {len(ours)} in the policy's contract"
    if are_numbers(ours):
        return ""
    for column, (their, our) in enumerate(zip(theirs, ours, strict=True)):
        if their != our:
            return (
                f"column {column} is {their!r} on the robot and {our!r} in the policy's contract; "
                "names must be equal and in the same order"
            )
    return ""


def _is_close(a: float, b: float, tolerance: float) -> bool:
    return abs(a - b) <= tolerance * abs(b)
