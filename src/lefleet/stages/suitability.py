"""Whether a training can work on a dataset: its statistics against the policy's normalisation.

Pure functions of meta/info.json and meta/stats.json, so that `inspect`, `run` and `train` give the
same answer in seconds. LeRobot divides by spreads without looking at them, and leaves a feature
without statistics as it is; both fail silently.
"""

import json
import math
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from lefleet.errors import BadInput
from lefleet.records.checkpoint import Normalisation, column_numbers
from lefleet.stages.contract import is_simulated, known_names, policy_features
from lefleet.stages.normalisation import (
    ACTION,
    ENV,
    FAMILIES,
    IDENTITY,
    STATE,
    STATISTICS,
    VISUAL,
    ChosenMapping,
    PolicySettings,
    choose_mapping,
    kind_of,
)
from lefleet.stages.state_only import missing_input

STATS = "meta/stats.json"
LARGEST_UNSCALED = 10.0
"""Values beyond this are refused where a network would get them as they are."""
STILL = 1e-6
"""A spread below this, of values up to 1, or below this share of larger values, is rounding: the
column never changes."""
_QUIET = 0.01
"""A column that moves less than this share of the median column is mentioned."""
_SHOWN = 5

type Statistics = Mapping[str, Mapping[str, tuple[float, ...]]]
"""By feature and by name; flat."""
type NewStatistics = dict[str, dict[str, dict[int, float]]]
"""Statistics to replace, by feature, name and column."""


class Refusal(NamedTuple):
    """Why a training cannot work, and what helps."""

    problem: str
    remedy: str


class Suitability(NamedTuple):
    """What the check found."""

    normalisation: Normalisation
    flag: str
    """Value of --policy.normalization_mapping; empty where LeRobot has it already."""
    refusals: tuple[Refusal, ...]
    notes: tuple[str, ...]
    """What works, but should be known."""
    corrections: NewStatistics
    """What the training must be told, so that a column that never changes is not divided by its
    spread."""

    def require(self, field: str) -> None:
        """Raise BadInput with the first refusal; `field` is what the request calls the data."""
        if self.refusals:
            first, *more = self.refusals
            further = f" ({len(more)} more: lefleet inspect lists them.)" if more else ""
            raise BadInput(f"{field}: {first.problem}{further}", first.remedy)


def read_statistics(root: Path) -> dict[str, dict[str, tuple[float, ...]]]:
    """meta/stats.json of a dataset; empty where there is none."""
    file = root / STATS
    try:
        content = json.loads(file.read_bytes())  # msgspec refuses NaN, which LeRobot writes.
        return {
            str(key): {str(name): tuple(_flat(values)) for name, values in entry.items()}
            for key, entry in content.items()
        }
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, AttributeError, RecursionError) as error:
        raise BadInput(f"{file}: it cannot be read: {error}.", recompute_remedy(root)) from error


def assess(
    settings: PolicySettings,
    info: Mapping[str, Any],
    root: Path,
    checkpoint: Mapping[str, Any] | None = None,
) -> Suitability:
    """Of the dataset in `root` for this training; `checkpoint` is the config of one to continue
    from."""
    found = judge(
        info,
        read_statistics(root),
        choose_mapping(settings, info, checkpoint),
        str(checkpoint["type"]) if checkpoint else settings.policy_type,
        remedy=recompute_remedy(root),
    )
    missing = None if checkpoint else missing_input(settings.policy_type, info["features"])
    return found._replace(refusals=(Refusal(*missing), *found.refusals)) if missing else found


def judge(
    info: Mapping[str, Any],
    statistics: Statistics,
    chosen: ChosenMapping,
    policy_type: str,
    *,
    remedy: str,
) -> Suitability:
    """Every column against its mode. `remedy` is how statistics are made again."""
    found = _Found(info, statistics, chosen, policy_type, remedy)
    if info.get("total_frames") == 0:
        found.refuse("the dataset has no frames.", "Record some episodes first.")
    features = policy_features(info)
    if "action" not in features:
        found.refuse(
            "the dataset has no action.", "Record what the robot is told, as a feature action."
        )
    for key, feature in features.items():
        if kind_of(key, feature) == VISUAL:
            found.look_at_images(key)
        else:
            found.look_at_vector(key, feature)
    return Suitability(
        Normalisation(
            mapping=dict(chosen.mapping),
            reason=chosen.reason,
            unscaled=found.still,
        ),
        chosen.flag,
        tuple(found.refusals),
        tuple(found.notes),
        found.corrections,
    )


def recompute_remedy(root: Path) -> str:
    """How a person makes statistics again."""
    return (
        f"Make the statistics again: lerobot-edit-dataset --repo_id local/{root.name} "
        f"--root {root} --new_root {root} --operation.type recompute_stats "
        "--operation.overwrite true --operation.skip_image_video false"
    )


class _Vector(NamedTuple):
    """A feature of numbers: how it is scaled, and its statistics, each with a value per column."""

    key: str
    kind: str
    mode: str
    names: tuple[str, ...]
    statistics: Mapping[str, tuple[float, ...]]

    def ranges(self) -> list[float]:
        """From the lowest to the highest value; 0 where that is only rounding."""
        if "min" not in self.statistics or "max" not in self.statistics:
            return [math.inf] * len(self.names)
        ends = zip(self.statistics["min"], self.statistics["max"], strict=True)
        return [_spread(low, high) for low, high in ends]

    def spreads(self) -> list[float]:
        """What LeRobot divides by; 0 where it is only rounding. LeRobot adds up squares in single
        precision: the standard deviation of a column that is always 12.3 may come out as 0.01."""
        first, second = (self.statistics[name] for name in STATISTICS[self.mode])
        if self.mode == "MEAN_STD":
            first = (0.0,) * len(second)
        found = [_spread(low, high) for low, high in zip(first, second, strict=True)]
        return [a if b > 0 else 0.0 for a, b in zip(found, self.ranges(), strict=True)]

    def replacements(self, at: int, full_range: float) -> dict[str, float]:
        """Statistics for a column without spread: it is centred, and not scaled. One that moves
        outside the quantiles only is scaled by its whole range."""
        first, second = STATISTICS[self.mode]
        if self.mode == "MEAN_STD":
            return {second: full_range / 4 if _is_moving(full_range) else 1.0}
        if _is_moving(full_range):
            return {first: self.statistics["min"][at], second: self.statistics["max"][at]}
        centre = (self.statistics[first][at] + self.statistics[second][at]) / 2
        return {first: centre - 1.0, second: centre + 1.0}


class _Found:
    """Collects what is found, feature by feature."""

    def __init__(
        self,
        info: Mapping[str, Any],
        statistics: Statistics,
        chosen: ChosenMapping,
        policy_type: str,
        remedy: str,
    ) -> None:
        self._statistics = statistics
        self._chosen = chosen
        self._policy_type = policy_type
        self._remedy = remedy
        self._is_simulated = is_simulated(info)
        self.refusals: list[Refusal] = []
        self.notes: list[str] = []
        self.still: dict[str, tuple[str, ...]] = {}
        self.corrections: NewStatistics = {}

    def refuse(self, problem: str, remedy: str) -> None:
        self.refusals.append(Refusal(problem, remedy))

    def look_at_images(self, key: str) -> None:
        """LeRobot scales images by ImageNet's statistics, and needs an entry to put them into."""
        mode = self._chosen.mapping.get(VISUAL, IDENTITY)
        needed = () if mode == "MEAN_STD" else STATISTICS[mode]
        known = self._statistics.get(key)
        if known is None or any(name not in known for name in needed):
            self._refuse_missing(key, [name for name in needed if name not in (known or {})])

    def look_at_vector(self, key: str, feature: dict[str, Any]) -> None:
        kind = kind_of(key, feature)
        mode = self._chosen.mapping.get(kind, IDENTITY)
        width = math.prod(feature["shape"])
        names = known_names(feature)
        known = dict(self._statistics.get(key, {}))
        known.pop("count", None)
        if missing := [name for name in STATISTICS[mode] if name not in known]:
            self._refuse_missing(key, missing)
            return
        if wrong := [name for name, values in known.items() if len(values) != width]:
            self.refuse(
                f"{key}: {STATS} has {len(known[wrong[0]])} values of {wrong[0]} for {width} "
                "columns.",
                self._remedy,
            )
            return
        names = names if len(names) == width else column_numbers(width)
        vector = _Vector(key, kind, mode, names, known)
        if broken := [names[at] for at in range(width) if not _is_finite(known, at)]:
            self.refuse(
                f"{key}: {_listed(broken)} holds values that are not finite (NaN or infinite).",
                f"Remove or repair these frames. {self._remedy}",
            )
        elif kind == ACTION and not any(vector.ranges()):
            self.refuse(
                f"{key}: no column ever changes, so there is nothing to learn.",
                "Record episodes in which the robot is moved, and look at what is recorded.",
            )
        elif mode != IDENTITY:
            self._look_at_spreads(vector)
        elif self._chosen.is_known and not self._is_simulated:
            self._look_at_values(vector)

    def _look_at_spreads(self, vector: _Vector) -> None:
        key, names = vector.key, vector.names
        spreads, ranges = vector.spreads(), vector.ranges()
        without = [at for at, spread in enumerate(spreads) if spread == 0]
        for at in without:
            for name, value in vector.replacements(at, ranges[at]).items():
                self.corrections.setdefault(key, {}).setdefault(name, {})[at] = value
        if still := tuple(names[at] for at in without if not _is_moving(ranges[at])):
            self.still[key] = still
            self.notes.append(
                f"{key}: {_listed(still)} never changes: it is centred, and not divided by its "
                "spread."
            )
        if rare := [names[at] for at in without if _is_moving(ranges[at])]:
            self.notes.append(
                f"{key}: {_listed(rare)} moves, but {' and '.join(STATISTICS[vector.mode])} do not "
                "show it: it is scaled by its whole range."
            )
        moving = sorted(spread for spread in spreads if spread > 0)
        median = moving[len(moving) // 2] if moving else 0.0
        if quiet := [names[at] for at, one in enumerate(spreads) if 0 < one < _QUIET * median]:
            self.notes.append(
                f"{key}: {_listed(quiet)} moves less than a hundredth of the other columns, and "
                "normalisation makes it as large as they are. A robot that holds it elsewhere "
                "shows the policy what it has never seen."
            )

    def _look_at_values(self, vector: _Vector) -> None:
        """Those that a network gets as they are."""
        low, high = vector.statistics.get("min", ()), vector.statistics.get("max", ())
        ends = list(zip(low, high, strict=False))
        large = [at for at, (a, b) in enumerate(ends) if max(-a, b) > LARGEST_UNSCALED]
        if not large:
            return
        first, last = ends[large[0]]
        names = _listed(vector.names[at] for at in large)
        problem = (
            f"{vector.key}: {names} goes from {first:g} to {last:g}, and IDENTITY gives that to "
            f"the policy as it is; beyond ±{LARGEST_UNSCALED:g} it does not train."
        )
        family = FAMILIES.get(self._policy_type, {})
        default = family.get(vector.kind) or (family.get(STATE) if vector.kind == ENV else "")
        if default == IDENTITY:
            self.notes.append(
                f"{vector.key}: {names} goes from {first:g} to {last:g}; {self._policy_type} takes "
                "it as it is, by its own default."
            )
        else:
            self.refuse(problem, _IDENTITY_REMEDY)

    def _refuse_missing(self, key: str, names: list[str]) -> None:
        what = f"no {', '.join(names)}" if names and key in self._statistics else "no statistics"
        self.refuse(f"{key}: {STATS} has {what} of it.", self._remedy)


_IDENTITY_REMEDY = (
    "Leave policy.normalization_mapping out, so that the dataset's statistics are used. A "
    "checkpoint that was trained with IDENTITY cannot be continued from with such data: train "
    "without init."
)


def _is_finite(statistics: Mapping[str, tuple[float, ...]], at: int) -> bool:
    return all(math.isfinite(values[at]) for values in statistics.values())


def _spread(low: float, high: float) -> float:
    size = max(1.0, abs(low), abs(high))
    return high - low if high - low > STILL * size else 0.0


def _is_moving(full_range: float) -> bool:
    """False also where the range is not known."""
    return 0 < full_range < math.inf


def _flat(values: Any) -> Iterable[float]:
    if isinstance(values, list):
        for value in values:
            yield from _flat(value)
    else:
        yield float(values)


def _listed(names: Iterable[str]) -> str:
    every = list(names)
    more = f" and {len(every) - _SHOWN} more" if len(every) > _SHOWN else ""
    return ", ".join(every[:_SHOWN]) + more
