"""Coverage, loss and horizon, judged from what was measured: pure functions.

A judge returns what is suspicious, each with how well it alone explains that nothing works; where
nothing is, that it is in order, or that it is not known. The weights only rank causes that were
seen together: one that makes success impossible comes before one that makes it less likely.
"""

from collections.abc import Iterator, Sequence
from statistics import fmean, median

from lefleet.loop.diagnosis.measurements import Measurements
from lefleet.records.diagnosis import Aspect, DiagnosisFinding

FEW_EPISODES = 10
"""Demonstrations of a task below which a small policy seldom works."""
FEW_FOR_VLA = 50
FEW_STEPS = 100
"""Steps within which no fresh policy learns a task."""
FEW_PASSES = 3.0
"""Times that a training sees each frame, below which a fresh policy has hardly begun to learn."""
_VLA = ("smolvla", "pi0", "pi05", "pi0_fast", "groot", "molmoact2", "evo1")
_SLOWER = {"rung.learning_rate": "1e-4"}
MOST_NAMED = 3


def suspicious(
    aspect: Aspect,
    weight: float,
    measured: str,
    remedy: str,
    settings: dict[str, str] | None = None,
) -> DiagnosisFinding:
    return DiagnosisFinding(
        aspect=aspect,
        verdict="suspicious",
        measured=measured,
        remedy=remedy,
        settings=settings or {},
        weight=weight,
    )


def or_ok(
    aspect: Aspect, found: Sequence[DiagnosisFinding], measured: str
) -> Sequence[DiagnosisFinding]:
    """What is suspicious; else that nothing is."""
    return found or [DiagnosisFinding(aspect=aspect, verdict="ok", measured=measured)]


def unknown(aspect: Aspect, why: str, remedy: str) -> list[DiagnosisFinding]:
    return [DiagnosisFinding(aspect=aspect, verdict="unknown", measured=why, remedy=remedy)]


# Coverage


def coverage(measured: Measurements) -> Sequence[DiagnosisFinding]:
    """Whether the data shows what is evaluated, often enough and from different beginnings."""
    found = list(_coverage(measured))
    counts = [one.episodes for one in measured.data.values()]
    words = f"{_demonstrations(counts)} of each of {len(counts)} tasks"
    if len(counts) == 1:
        words = f"{_demonstrations(counts)} of {next(iter(measured.data))}"
    if not found and len(measured.texts) < len(measured.evaluated):
        other = sorted(set(measured.evaluated) - set(measured.texts))
        return unknown(
            "coverage",
            f"{words}; whether {listed(other)} is among them is not known",
            f"Compare the evaluated tasks with those of the data: {listed(list(measured.data))}.",
        )
    return or_ok("coverage", found, words)


def _coverage(measured: Measurements) -> Iterator[DiagnosisFinding]:
    missing = [task for task, text in measured.texts.items() if text not in measured.data]
    if missing:
        share = len(missing) / len(measured.evaluated)
        yield suspicious(
            "coverage",
            0.98 if share == 1.0 else 0.4 + 0.4 * share,
            f"the data has no demonstration of {listed(missing)}, which is evaluated; it has "
            f"{listed(list(measured.data))}",
            "Add demonstrations of these tasks, or evaluate only tasks that the data shows.",
        )
    few = FEW_FOR_VLA if measured.policy_type in _VLA else FEW_EPISODES
    shown = {text: one for text, one in measured.data.items() if one.episodes < few}
    if shown:
        least = min(one.episodes for one in shown.values())
        yield suspicious(
            "coverage",
            0.45 if least < 3 else 0.25,
            f"{_demonstrations([one.episodes for one in shown.values()])} of "
            f"{listed(list(shown))}; fewer than {few} are seldom enough",
            f"Collect at least {few} for each task.",
            {"collect.episodes_per_task": f"[{few}]"},
        )
    same = [text for text, one in measured.data.items() if one.starts == 1 and one.episodes > 3]
    if same:
        yield suspicious(
            "coverage",
            0.5,
            f"all demonstrations of {listed(same)} begin in the same state",
            "Record them from different initial states: those of an evaluation differ.",
        )


# Loss


def loss(measured: Measurements) -> Sequence[DiagnosisFinding]:
    """Whether the training has learned, and was done."""
    numbers = [one for one in measured.losses if one is not None]
    if not numbers:
        return unknown(
            "loss", "the training log has no loss", "Look at log.txt of the train stage."
        )
    passes = measured.steps * measured.batch_size / max(1, measured.frames)
    trained = f"{measured.steps} steps saw each frame {passes:.2g} times"
    curve = f"{numbers[0]:.3g} → {numbers[-1]:.3g}" if len(numbers) > 1 else f"{numbers[-1]:.3g}"
    found = [*_training(measured, passes, trained, curve), *_curve(measured, numbers)]
    return or_ok("loss", found, f"{curve}; {trained}")


def _training(
    measured: Measurements, passes: float, trained: str, curve: str
) -> Iterator[DiagnosisFinding]:
    if not measured.is_fresh:
        return
    if measured.steps < FEW_STEPS or passes < FEW_PASSES:
        needed = max(10 * FEW_STEPS, round(10 * measured.frames / measured.batch_size))
        yield suspicious(
            "loss",
            0.95 if measured.steps < FEW_STEPS else 0.65,
            f"hardly trained: {trained}; the loss was {curve}",
            f"Train longer, for instance {needed} steps.",
            {"rung.steps": str(needed)},
        )
    elif (error := _normalised_error(measured)) and (last := measured.losses[-1]):
        share = 1.0 - last / error
        if share < 0.5:
            flat = _is_flat(measured.losses)
            yield suspicious(
                "loss",
                0.6,
                f"{'it stopped' if flat else 'it is'} at {last:.3g}, {max(0.0, share):.0%} below "
                f"that of a policy that always does the same ({error:.3g})",
                "Look for actions that do not follow from what is observed: shifted in time, mixed "
                "up, or of another robot. Try a lower learning_rate."
                if flat
                else "Train longer.",
                _SLOWER if flat else {"rung.steps": str(4 * measured.steps)},
            )


def _is_flat(losses: Sequence[float | None]) -> bool:
    """Whether the second half of the training changed nothing."""
    numbers = [one for one in losses if one is not None]
    half = len(numbers) // 2
    if half < 2:
        return False
    return numbers[-1] > 0.9 * numbers[-half]


def _curve(measured: Measurements, numbers: Sequence[float]) -> Iterator[DiagnosisFinding]:
    if None in measured.losses:
        count = measured.losses.count(None)
        yield suspicious(
            "loss",
            0.9,
            f"{count} of {len(measured.losses)} logged losses are not a number",
            "Lower learning_rate, and look for numbers in the data that are not finite.",
            _SLOWER,
        )
    part = len(numbers) // 5
    if part < 1:
        return
    last, before = fmean(numbers[-part:]), fmean(numbers[-2 * part : -part])
    if last > 2.0 * min(numbers):
        yield suspicious(
            "loss",
            0.7,
            f"it rose again: {min(numbers):.3g} at its lowest, {last:.3g} at the end",
            "Lower learning_rate.",
            _SLOWER,
        )
    elif last < 0.8 * before:
        yield suspicious(
            "loss",
            0.35,
            f"it was still falling at the end: {before:.3g} → {last:.3g} over the last fifth",
            "Train longer.",
            {"rung.steps": str(2 * measured.steps)},
        )


def _normalised_error(measured: Measurements) -> float | None:
    """Loss of a policy that always does the same, in the unit of the loss."""
    actions = measured.actions
    if not measured.policy.has_plain_error or actions is None:
        return None
    match measured.policy.modes.get("ACTION", "IDENTITY"):
        case "IDENTITY":
            return actions.constant_error
        case "MEAN_STD":
            spread = fmean(column.std for column in actions.columns)
            return actions.constant_error / spread if spread else None
        case _:
            return None


# Horizon


def horizon(measured: Measurements) -> Sequence[DiagnosisFinding]:
    """Whether episodes are long enough, and the policy looks often enough."""
    lengths = [length for one in measured.data.values() for length in one.lengths]
    typical = median(lengths) if lengths else measured.frames / max(1, _episodes(measured))
    if not measured.limits:
        return list(_looks(measured, typical)) or unknown(
            "horizon",
            f"demonstrations take about {typical:.0f} steps; how long an evaluated episode may "
            "take is not known",
            "Compare with the episode length of the environment.",
        )
    found = [*_limits(measured, typical), *_looks(measured, typical)]
    words = (
        f"demonstrations take {typical:.0f} steps ({typical / measured.fps:.1f} s), episodes end "
        f"after {_range(list(measured.limits.values()))}"
    )
    return or_ok("horizon", found, words)


def _limits(measured: Measurements, typical: float) -> Iterator[DiagnosisFinding]:
    long: list[tuple[float, str, float, int]] = []
    for task, limit in measured.limits.items():
        shown = measured.data.get(measured.texts.get(task, ""))
        needed = median(shown.lengths) if shown and shown.lengths else typical
        long.append((needed / limit, task, needed, limit))
    ratio, task, needed, limit = max(long)
    if ratio > 0.8:
        yield suspicious(
            "horizon",
            (0.9 if ratio > 1.0 else 0.4) * (0.5 + 0.5 * min(long)[0] / ratio),
            f"demonstrations of {task} take {needed:.0f} steps, and an episode ends after {limit}",
            "Let episodes take about twice as long as demonstrations, or demonstrate faster.",
            {"evaluate.env.episode_length": str(round(2 * needed))},
        )


def _looks(measured: Measurements, typical: float) -> Iterator[DiagnosisFinding]:
    """A policy looks at the world only where a new chunk begins."""
    executed, chunk = measured.policy.n_action_steps, measured.policy.chunk_size
    if executed and typical < 3 * executed:
        yield suspicious(
            "horizon",
            0.6 if typical < 1.5 * executed else 0.3,
            f"{executed} actions ({executed / measured.fps:.1f} s) are executed before the policy "
            f"looks again, and a demonstration has {typical:.0f} steps",
            f"Lower n_action_steps, for instance to {max(1, round(typical / 10))}.",
            {"rung.policy.n_action_steps": str(max(1, round(typical / 10)))},
        )
    elif chunk and chunk > typical:
        yield suspicious(
            "horizon",
            0.2,
            f"a chunk has {chunk} steps, and a demonstration {typical:.0f}",
            f"Lower chunk_size, for instance to {max(1, round(typical / 5))}.",
            {"rung.policy.chunk_size": str(max(executed or 1, round(typical / 5)))},
        )


def _episodes(measured: Measurements) -> int:
    return sum(one.episodes for one in measured.data.values())


# Words


def _demonstrations(counts: Sequence[int]) -> str:
    return f"{_range(counts)} demonstration{'' if set(counts) == {1} else 's'}"


def _range(numbers: Sequence[int]) -> str:
    if not numbers:
        return "no"
    low, high = min(numbers), max(numbers)
    return str(low) if low == high else f"{low} to {high}"


def listed(names: Sequence[str]) -> str:
    """The first few."""
    more = len(names) - MOST_NAMED
    return ", ".join(names[:MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
