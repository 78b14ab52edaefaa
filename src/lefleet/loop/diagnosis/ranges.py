"""Action range and normalisation, judged from what was measured: pure functions."""

import json
from collections.abc import Iterator, Sequence
from statistics import median

from lefleet.loop.diagnosis.judges import MOST_NAMED, or_ok, suspicious, unknown
from lefleet.loop.diagnosis.measurements import ACTION, Column, Measurements, PolicyFacts
from lefleet.records.diagnosis import DiagnosisFinding

LARGE = 10.0
"""Absolute value beyond which an input that is not normalised drowns the others."""
SMALL = 0.01
"""Largest absolute value below which actions that are not normalised are lost in the noise."""


def action_range(measured: Measurements) -> Sequence[DiagnosisFinding]:
    """Whether recorded actions vary, and are within what the environment executes."""
    columns = measured.actions.columns if measured.actions else measured.vectors.get(ACTION, ())
    if not columns:
        return unknown(
            "action range",
            "the frames of the dataset and meta/stats.json cannot be read",
            "Look whether the dataset is still where the run took it from.",
        )
    low, high = min(one.low for one in columns), max(one.high for one in columns)
    least = min(one.std for one in columns)
    words = f"{low:.3g} to {high:.3g}, smallest spread of a column {least:.2g}"
    return or_ok("action range", list(_action_range(measured, columns)), words)


def _action_range(measured: Measurements, columns: Sequence[Column]) -> Iterator[DiagnosisFinding]:
    usual = median(one.std for one in columns)
    constant = [one for one in columns if _stands_still(one, usual)]
    if constant:
        values = ", ".join(f"{one.name} = {one.mean:.3g}" for one in constant[:MOST_NAMED])
        yield suspicious(
            "action range",
            0.95 if len(constant) == len(columns) else 0.55,
            f"{len(constant)} of {len(columns)} action columns never change ({values})",
            "Look whether these motors were recorded. A policy cannot learn to move what stands "
            "still in all demonstrations; that is right only where the tasks do not need it.",
        )
    if measured.action_range is not None:
        least, most = measured.action_range
        beyond = [one for one in columns if one.low < 1.01 * least or one.high > 1.01 * most]
        if beyond:
            worst = max(beyond, key=_size)
            yield suspicious(
                "action range",
                0.8 if _size(worst) > 2.0 * most else 0.4,
                f"{worst.name} goes from {worst.low:.3g} to {worst.high:.3g}, and the environment "
                f"clips actions to {least:g} to {most:g}",
                "Scale or clip recorded actions to what the environment executes.",
            )
        elif (largest := max(map(_size, columns))) < 0.05 * most:
            yield suspicious(
                "action range",
                0.6,
                f"no action is larger than {largest:.2g}, of a range up to {most:g}",
                "Look at the unit of recorded actions.",
            )
    if measured.actions and measured.actions.at_limit > 0.9 and not constant:
        yield suspicious(
            "action range",
            0.4,
            f"{measured.actions.at_limit:.0%} of all action values are at the end of their range",
            "Look whether actions were clipped when they were recorded.",
        )


def _stands_still(column: Column, usual: float) -> bool:
    """But for noise, against its own size or the spread of other columns."""
    return column.std <= max(1e-3 * _size(column), 1e-4 * usual)


def normalisation(measured: Measurements) -> Sequence[DiagnosisFinding]:
    """Whether every vector reaches the policy with numbers around one."""
    policy = measured.policy
    modes = {
        key: policy.modes.get(policy.kinds[key], "IDENTITY")
        for key in measured.vectors
        if key in policy.kinds
    }
    if not modes:
        return unknown(
            "normalisation",
            "the config of the checkpoint, or the statistics of the data, cannot be read",
            "Look at config.json of the checkpoint and meta/stats.json of the dataset.",
        )
    found: list[DiagnosisFinding] = []
    for key, mode in modes.items():
        columns = measured.vectors[key]
        if mode == "IDENTITY":
            found += _not_normalised(key, columns, _with(policy, key, "MEAN_STD"))
        else:
            identity = _with(policy, key, "IDENTITY")
            found += _spread(key, mode, columns, identity)
            found += _saved(columns, policy.saved.get(key, ()))
    found += _stale(measured)
    words = ", ".join(f"{key} {mode}" for key, mode in modes.items())
    return or_ok("normalisation", found, f"{words}: numbers are around one")


def _with(policy: PolicyFacts, key: str, mode: str) -> dict[str, str]:
    """The setting that normalises one kind of feature otherwise; LeRobot wants all of them."""
    modes = {**policy.modes, policy.kinds[key]: mode}
    return {"rung.policy.normalization_mapping": json.dumps(modes)}


def _not_normalised(
    key: str, columns: Sequence[Column], settings: dict[str, str]
) -> Iterator[DiagnosisFinding]:
    worst = max(columns, key=_size)
    if _size(worst) > LARGE:
        yield suspicious(
            "normalisation",
            0.7 if _size(worst) > 10 * LARGE else 0.5,
            f"{key} is not normalised, and {worst.name} goes from {worst.low:.3g} to "
            f"{worst.high:.3g}",
            "Normalise it with MEAN_STD, or scale it to about one.",
            settings,
        )
    elif key == ACTION and _size(worst) < SMALL:
        yield suspicious(
            "normalisation",
            0.6,
            f"actions are not normalised, and none is larger than {_size(worst):.2g}",
            "Normalise them with MEAN_STD.",
            settings,
        )


def _spread(
    key: str, mode: str, columns: Sequence[Column], settings: dict[str, str]
) -> Iterator[DiagnosisFinding]:
    """What is divided by almost nothing becomes huge as soon as it differs a little."""
    if key == ACTION:
        # What a policy puts out is multiplied by its spread; a constant column is another matter.
        return
    divisors = {one: _divisor(one, mode) for one in columns}
    varied = [divisor for divisor in divisors.values() if divisor > 1e-6]
    usual = median(varied) if varied else 1.0
    tiny = [one for one, divisor in divisors.items() if _is_tiny(one, divisor, usual)]
    if tiny:
        worst = max(tiny, key=lambda one: (one.high - one.low) / (divisors[one] + 1e-8))
        yield suspicious(
            "normalisation",
            0.75,
            f"{mode} divides {len(tiny)} of {len(columns)} columns of {key} by almost nothing: "
            f"{worst.name} by {divisors[worst]:.2g}, and others by {usual:.2g}",
            "Do not normalise it (IDENTITY) and scale it in the environment instead, or leave "
            "these columns out.",
            settings,
        )


def _divisor(column: Column, mode: str) -> float:
    if mode == "MEAN_STD":
        return column.std
    if mode.startswith("QUANTILE") and column.q01 is not None and column.q99 is not None:
        return column.q99 - column.q01
    return column.high - column.low


def _is_tiny(column: Column, divisor: float, usual: float) -> bool:
    return column.high > column.low and divisor < 1e-3 * usual


def _saved(columns: Sequence[Column], saved: Sequence[Column]) -> Iterator[DiagnosisFinding]:
    """A checkpoint that was trained further may normalise with the statistics of other data."""
    for ours, theirs in zip(columns, saved, strict=False):
        spread = max(ours.std, 1e-6)
        is_shifted = abs(ours.mean - theirs.mean) > 3.0 * max(theirs.std, 1e-6)
        is_scaled = not 0.2 < (theirs.std + 1e-6) / spread < 5.0
        if is_shifted or is_scaled:
            yield suspicious(
                "normalisation",
                0.8,
                f"the checkpoint takes {ours.name} for {theirs.mean:.3g} ± {theirs.std:.2g}, and "
                f"in the data it is {ours.mean:.3g} ± {ours.std:.2g}",
                "Train with the statistics of this data: LeRobot takes them from meta/stats.json.",
            )
            return


def _stale(measured: Measurements) -> Iterator[DiagnosisFinding]:
    """Statistics that were not made of the frames beside them."""
    if measured.actions is None:
        return
    for real, said in zip(measured.actions.columns, measured.vectors.get(ACTION, ()), strict=False):
        room = 0.05 * max(said.high - said.low, 1e-3)
        is_outside = real.low < said.low - room or real.high > said.high + room
        is_other = measured.actions.is_all and abs(real.std - said.std) > 0.2 * max(
            real.std, said.std, 1e-3
        )
        if is_outside or is_other:
            yield suspicious(
                "normalisation",
                0.5,
                f"meta/stats.json says {said.low:.3g} to {said.high:.3g} for {real.name}, its "
                f"spread {said.std:.2g}; the frames say {real.low:.3g} to {real.high:.3g}, "
                f"{real.std:.2g}",
                "Compute the statistics again: the data was changed after they were made.",
            )
            return


def _size(column: Column) -> float:
    return max(abs(column.low), abs(column.high))
