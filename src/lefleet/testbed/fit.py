"""Whether a checkpoint can drive the simulated robot, and for which tasks."""

from pathlib import Path

from lefleet.errors import BadInput
from lefleet.policy import ModelSettings
from lefleet.policy.checkpoint import features_of, find_files, read_config, rename_map_of
from lefleet.policy.contract import find_contract
from lefleet.policy.load import discover
from lefleet.records import CheckpointContract, decode
from lefleet.robots import LeFleetSim
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.sim.render import CAMERAS
from lefleet.sim.tasks import BY_INSTRUCTION, resolve_tasks
from lefleet.stages.cameras import IMAGES
from lefleet.stages.contract import CONTRACT_FILE
from lefleet_client.wire import Contract

_WHAT_FITS = (
    "This command drives the simulated robot, which can fail without harm: actions "
    f"{', '.join(ACTION_NAMES)}; {' and '.join(LeFleetSim.vectors)} as its only inputs; {FPS} Hz. "
    "Checkpoints trained on data of lefleet collect expert have these."
)


def require_fit(folder: str) -> None:
    """Raise BadInput naming what the policy wants and the simulated robot does not have."""
    model = ModelSettings(repo_or_path=folder)
    discover(())
    files = find_files(model)
    config = read_config(files, model)
    found = find_contract(
        files.folder,
        config,
        features_of(files, config),
        None,
        trust_order=True,
        rename_map=rename_map_of(files),
    )
    if problem := _misfit(found.contract):
        raise BadInput(f"checkpoint: {problem}.", _by_hand(found.contract) or _WHAT_FITS)


def _by_hand(contract: Contract) -> str:
    """How to drive the simulated robot with a policy that sees its cameras: an image takes about as
    long as a tick, so this command's result would be about the renderer."""
    names = [key.removeprefix(IMAGES) for key in contract.cameras]
    sizes = {shape[:2] for shape in contract.cameras.values()}
    if len(sizes) != 1 or not set(names) <= set(CAMERAS):
        return ""
    height, width = sizes.pop()
    return (
        f"The simulated robot cannot render that at {FPS} Hz. lefleet eval measures such a policy. "
        "To drive one robot as fast as it renders: lefleet serve, and then lefleet rollout "
        f"--robot.type=lefleet_sim --robot.cameras=[{','.join(names)}] "
        f"--robot.camera_width={width} --robot.camera_height={height} --fps={FPS} "
        "--inference.type=remote"
    )


def _misfit(contract: Contract) -> str:
    """What does not fit, to end a sentence; empty if everything does."""
    if contract.cameras:
        return f"the policy looks through {', '.join(contract.cameras)}"
    for key, names in contract.vectors.items():
        ours = LeFleetSim.vectors.get(key)
        if ours is None:
            return f"the policy takes {key}, which the simulated robot does not have"
        if names != ours:
            return f"the policy's {key} is not the simulated robot's: {_first(names, ours)}"
    if contract.action_names != ACTION_NAMES:
        first = _first(contract.action_names, ACTION_NAMES)
        return f"the policy's actions are not the simulated robot's: {first}"
    if contract.fps != FPS:
        return f"the policy was trained at {contract.fps:g} Hz, the simulated robot has {FPS}"
    return ""


def _first(theirs: tuple[str, ...], ours: tuple[str, ...]) -> str:
    """Where two lists of names first differ."""
    if len(theirs) != len(ours):
        return f"{len(theirs)} columns, not {len(ours)}"
    pairs = enumerate(zip(theirs, ours, strict=True))
    return next(f"column {n} is {a}, not {b}" for n, (a, b) in pairs if a != b)


def tasks_of(folder: str, named: tuple[str, ...], field: str = "tasks") -> tuple[str, ...]:
    """The tasks that were named as `field`, else those that the checkpoint was trained for."""
    if named:
        return resolve_tasks(named)
    file = Path(folder) / CONTRACT_FILE
    trained: tuple[str, ...] = ()
    if file.is_file():
        contract: CheckpointContract = decode(file.read_bytes(), CheckpointContract, str(file))
        trained = tuple(BY_INSTRUCTION[one] for one in contract.tasks if one in BY_INSTRUCTION)
    if not trained:
        raise BadInput(
            f"{field}: the checkpoint does not say which tasks it was trained for.",
            f"Name them with --{field}.",
        )
    return trained
