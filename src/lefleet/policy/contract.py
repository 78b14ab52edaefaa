"""What every column of a policy's inputs and outputs means, and how that is known."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput
from lefleet.policy.checkpoint import PolicyFeatures, height_width_channels
from lefleet.policy.settings import ContractOverride
from lefleet.records import CheckpointContract, decode
from lefleet.records.border import as_bad_input
from lefleet.records.checkpoint import are_numbers, column_numbers
from lefleet.stages.contract import CONTRACT_FILE, column_names
from lefleet_client import wire

_REMEDY = (
    "Say it in `contract` of the manifest, or set `trust_order: true` if every robot is known to "
    "send and execute columns in the order of the training data."
)
_TRUSTED = (
    "the order of columns is trusted, not known (trust_order): it cannot be checked that the "
    "robot's columns are those of the training data"
)
_GUESSED_FPS = 30.0
_MANIFEST = "the manifest"


@dataclass(frozen=True)
class FoundContract:
    """The contract, where it comes from, and what a robot must be told about it."""

    contract: wire.Contract
    source: str
    warnings: tuple[str, ...]


@dataclass(frozen=True)
class ContractSource:
    """What one place says about the columns; empty where it says nothing."""

    source: str
    action_names: tuple[str, ...] = ()
    vectors: dict[str, tuple[str, ...]] = field(default_factory=dict)
    cameras: dict[str, tuple[int, ...]] = field(default_factory=dict)
    fps: float = 0.0
    robot_type: str = ""


def find_contract(
    folder: Path,
    config: Any,
    features: PolicyFeatures,
    override: ContractOverride | None,
    *,
    trust_order: bool,
    rename_map: dict[str, str],
) -> FoundContract:
    """Column names of a checkpoint; BadInput where they are unknown or do not fit the policy.

    Each piece comes from the first source that knows it: the file beside the weights, the policy's
    config, the dataset of the training, the manifest.
    """
    search = _Search(sources_of(folder, config, override, rename_map), trust_order)
    contract = wire.Contract(
        action_names=search.names("action", features.action_size, lambda known: known.action_names),
        vectors={
            key: search.names(key, size, _vector(key))
            for key, size in features.vector_sizes.items()
        },
        cameras=search.cameras(features),
        fps=search.fps(),
        policy_type=config.type,
        robot_type=search.first(lambda known: known.robot_type) or "",
    )
    try:
        msgspec.convert(msgspec.to_builtins(contract), type=wire.Contract)
    except msgspec.MsgspecError as error:
        raise as_bad_input(error, "contract") from error
    warnings = (_TRUSTED,) if search.is_trusting else ()
    return FoundContract(contract, search.description(), warnings)


class _Search:
    """Asks sources in their order, and remembers which ones it used."""

    def __init__(self, sources: list[ContractSource], trust_order: bool) -> None:
        self._sources = sources
        self._trust_order = trust_order
        self._used: list[str] = []
        self.is_trusting = False

    def first[T](self, piece: Callable[[ContractSource], T], what: str = "") -> T | None:
        """The first answer that is not empty; what the manifest says must agree with it."""
        answers = [(known.source, found) for known in self._sources if (found := piece(known))]
        if not answers:
            return None
        source, answer = answers[0]
        last, said = answers[-1]
        if last == _MANIFEST and said != answer and what:
            raise BadInput(
                f"contract.{what}: the manifest says {_short(said)}, {source} says "
                f"{_short(answer)}.",
                "Remove it from the manifest, or correct the file.",
            )
        if source not in self._used:
            self._used.append(source)
        return answer

    def names(
        self, feature: str, size: int, piece: Callable[[ContractSource], tuple[str, ...]]
    ) -> tuple[str, ...]:
        """Names of a vector's columns: exactly as many as the policy has."""
        field = "action_names" if feature == "action" else f"vectors.{feature}"
        names = self.first(piece, field)
        if not names:
            if not self._trust_order:
                raise BadInput(f"contract.{field}: the names of its columns are unknown.", _REMEDY)
            self.is_trusting = True
            return column_numbers(size)
        if len(names) != size:
            raise BadInput(
                f"contract.{field}: {self.description()} has {len(names)} names, the policy's "
                f"{feature} has {size} columns.",
                "This is not the contract of this checkpoint: correct it.",
            )
        if len(set(names)) != size:
            raise BadInput(f"contract.{field}: a name is there twice: {_short(names)}.", "")
        return names

    def cameras(self, features: PolicyFeatures) -> dict[str, tuple[int, int, int]]:
        """The policy's cameras that the training had; all of them where nothing is known."""
        trained = {key for known in self._sources for key in known.cameras}
        if trained and features.cameras and not trained & features.cameras.keys():
            raise BadInput(
                f"contract.cameras: the policy takes {', '.join(features.cameras)}, the contract "
                f"has {', '.join(sorted(trained))}.",
                "Rename them as the policy has them.",
            )
        kept = {k: v for k, v in features.cameras.items() if k in trained or not trained}
        return {
            key: height_width_channels(self.first(_camera(key), f"cameras.{key}") or shape)
            for key, shape in kept.items()
        }

    def fps(self) -> float:
        fps = self.first(lambda known: known.fps, "fps")
        if fps is None and not self._trust_order:
            raise BadInput("contract.fps: how fast the training data was is unknown.", _REMEDY)
        self.is_trusting |= fps is None
        return float(fps or _GUESSED_FPS)

    def description(self) -> str:
        return " and ".join(self._used) or "trust_order"


def _vector(key: str) -> Callable[[ContractSource], tuple[str, ...]]:
    return lambda known: known.vectors.get(key, ())


def _camera(key: str) -> Callable[[ContractSource], tuple[int, ...]]:
    return lambda known: known.cameras.get(key, ())


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}..."


def sources_of(
    folder: Path, config: Any, override: ContractOverride | None, rename_map: dict[str, str]
) -> list[ContractSource]:
    """All sources that exist, the most trusted first."""
    found = (
        _beside_weights(folder, rename_map),
        _in_config(config),
        _in_dataset(folder, rename_map),
        _in_manifest(override),
    )
    return [known for known in found if known is not None]


def _beside_weights(folder: Path, rename_map: dict[str, str]) -> ContractSource | None:
    file = folder / CONTRACT_FILE
    if not file.is_file():
        return None
    written: CheckpointContract = decode(file.read_bytes(), CheckpointContract, str(file))
    vectors = {key: _unless_numbers(names) for key, names in written.vectors.items()}
    return ContractSource(
        CONTRACT_FILE,
        _unless_numbers(written.action_names),
        _renamed(vectors, rename_map),
        _renamed(written.cameras, rename_map),
        written.fps,
        written.robot_type,
    )


def _unless_numbers(names: tuple[str, ...]) -> tuple[str, ...]:
    """Training writes numbers where its data has no names: that is no knowledge of an order."""
    return () if are_numbers(names) else names


def _in_config(config: Any) -> ContractSource | None:
    """Only the π0 family writes down the names of its actions."""
    names = getattr(config, "action_feature_names", None)
    return ContractSource("config.json", tuple(names)) if names else None


def _in_dataset(folder: Path, rename_map: dict[str, str]) -> ContractSource | None:
    """The data of the training, if it is still on this machine."""
    file = folder / "train_config.json"
    if not file.is_file():
        return None
    dataset = msgspec.json.decode(file.read_bytes()).get("dataset") or {}
    info_file = _root(dataset) / "meta" / "info.json"
    if not info_file.is_file():
        return None
    info = msgspec.json.decode(info_file.read_bytes())
    features = info["features"]
    observed = {key: value for key, value in features.items() if key.startswith("observation.")}
    images = {key for key, value in observed.items() if value["dtype"] in ("image", "video")}
    return ContractSource(
        str(info_file),
        column_names(features["action"]),
        _renamed({k: column_names(v) for k, v in observed.items() if k not in images}, rename_map),
        _renamed({k: tuple(observed[k]["shape"]) for k in images}, rename_map),
        float(info["fps"]),
        info.get("robot_type") or "",
    )


def _root(dataset: dict[str, Any]) -> Path:
    from lerobot.utils.constants import HF_LEROBOT_HOME

    root = dataset.get("root")
    return Path(root) if root else Path(HF_LEROBOT_HOME) / str(dataset.get("repo_id"))


def _in_manifest(override: ContractOverride | None) -> ContractSource | None:
    if override is None:
        return None
    return ContractSource(
        _MANIFEST,
        override.action_names,
        override.vectors,
        dict(override.cameras),
        override.fps or 0.0,
        override.robot_type,
    )


def _renamed[T](values: dict[str, T], rename_map: dict[str, str]) -> dict[str, T]:
    """Keys of the training's data to the policy's own."""
    return {rename_map.get(key, key): value for key, value in values.items()}
