"""What every column of a policy's inputs and outputs means, and how that is known."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput
from lefleet.policy.features import Features, height_width_channels
from lefleet.policy.settings import ContractOverride
from lefleet.policy.sources import MANIFEST, Known, sources_of
from lefleet.records.border import as_bad_input
from lefleet.records.checkpoint import column_numbers
from lefleet_client import wire

_REMEDY = (
    "Say it in `contract` of the manifest, or set `trust_order: true` if every robot is known to "
    "send and execute columns in the order of the training data."
)
_TRUSTED = (
    "the order of columns is trusted, not known (trust_order): nobody can check that the robot's "
    "columns are those of the training data"
)
_GUESSED_FPS = 30.0


@dataclass(frozen=True)
class FoundContract:
    """The contract, where it comes from, and what a robot must be told about it."""

    contract: wire.Contract
    source: str
    warnings: tuple[str, ...]


def find_contract(
    folder: Path,
    config: Any,
    features: Features,
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

    def __init__(self, sources: list[Known], trust_order: bool) -> None:
        self._sources = sources
        self._trust_order = trust_order
        self._used: list[str] = []
        self.is_trusting = False

    def first[T](self, piece: Callable[[Known], T], what: str = "") -> T | None:
        """The first answer that is not empty; what the manifest says must agree with it."""
        answers = [(known.source, found) for known in self._sources if (found := piece(known))]
        if not answers:
            return None
        source, answer = answers[0]
        last, said = answers[-1]
        if last == MANIFEST and said != answer and what:
            raise BadInput(
                f"contract.{what}: the manifest says {_short(said)}, {source} says "
                f"{_short(answer)}.",
                "Remove it from the manifest, or correct the file.",
            )
        if source not in self._used:
            self._used.append(source)
        return answer

    def names(
        self, feature: str, size: int, piece: Callable[[Known], tuple[str, ...]]
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

    def cameras(self, features: Features) -> dict[str, tuple[int, int, int]]:
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


def _vector(key: str) -> Callable[[Known], tuple[str, ...]]:
    return lambda known: known.vectors.get(key, ())


def _camera(key: str) -> Callable[[Known], tuple[int, ...]]:
    return lambda known: known.cameras.get(key, ())


def _short(value: object) -> str:
    text = str(value)
    return text if len(text) <= 120 else f"{text[:120]}..."
