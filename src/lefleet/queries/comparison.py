"""A comparison in words, for a reader who is not a statistician."""

from math import floor, log10
from typing import NamedTuple

from lefleet.records import CompareOptions, ComparisonRecord, GateResult
from lefleet.records.evaluate import MOST_NEEDED

_USUAL = CompareOptions()


class PolicyNames(NamedTuple):
    """What the two policies are called."""

    a: str
    b: str


LETTERS = PolicyNames("A", "B")
ROLES = PolicyNames("the candidate", "the baseline")


def sentence(record: ComparisonRecord, names: PolicyNames = LETTERS) -> str:
    """The verdict."""
    return _capital(_sentence(record, names))


def _sentence(record: ComparisonRecord, names: PolicyNames) -> str:
    gate, (a, b) = record.gate, names
    alpha = gate.alpha_worse if gate.ended == "worse" else gate.alpha_better
    match gate.ended:
        case "better" | "worse" as proven:
            return (
                f"{a} is {proven} than {b}: {_seen(record, names)}. If {a} were no {proven}, this "
                f"would happen at most once in {round(1 / alpha)} such comparisons."
            )
        case "vetoed":
            return (
                f"No clear answer: {a} is better than {b} over all tasks, but worse in "
                f"{', '.join(gate.worse_tasks)}."
            )
        case "futile":
            return (
                f"No clear answer: {_seen(record, names)}. A difference of "
                f"{_size(record, gate.min_effect)} is unlikely to show within {gate.max_pairs} "
                "pairs, so the comparison stopped."
            )
        case "open":
            return (
                f"No clear answer yet, {gate.max_pairs} pairs are planned: {_seen(record, names)}."
            )
        case "exhausted":
            return (
                f"No clear answer: {_seen(record, names)}, too little to tell which one is better."
            )


def remarks(record: ComparisonRecord, names: PolicyNames = LETTERS) -> list[str]:
    """What is printed below the table."""
    gate, (a, b) = record.gate, names
    low, high = gate.interval
    said = [
        _capital(
            f"{a} minus {b}: {_signed(record, gate.difference)}, 95 % interval "
            f"{_number(record, low)} to {_signed(record, high)}."
        )
    ]
    if gate.verdict != "inconclusive" and low <= 0.0 <= high:
        said.append(
            f"{_capital(a)} is {gate.verdict} although the interval contains 0: the test asks only "
            f"whether {a} "
            f"is {gate.verdict}; the interval has two sides and holds at every look, so it is "
            "wider."
        )
    said += [
        f"Evidence for better: e = {gate.e_value:.3g}, p = {gate.p_value:.2g}. "
        f"For worse: e = {gate.e_worse:.3g}, p = {gate.p_worse:.2g}.",
        f"(p is how probable such evidence is without a difference, all looks counted; the verdict "
        f"needs alpha = {gate.alpha_better:.2g} or less. e is what a stake of 1 on that side has "
        f"become in a fair bet; 1/alpha = {1 / gate.alpha_better:.3g} is as strong, and e "
        "stays valid when pairs are added.)",
    ]
    said += needed(record, names)
    if saved_pairs(gate):
        said.append(
            f"A test of fixed size needs {gate.fixed_pairs} pairs to show "
            f"{_size(record, gate.min_effect)} 8 times in 10; this one used {gate.pairs}."
        )
    if sum(one.pairs for one in record.per_task.values()) > gate.pairs:
        said.append("All pairs were run, to judge each task separately.")
    if record.note:
        said.append(record.note)
    return said


def saved_pairs(gate: GateResult) -> int:
    """By how many pairs a verdict was cheaper than a test of fixed size. A gate without a verdict
    has saved nothing."""
    if gate.verdict == "inconclusive" or gate.fixed_pairs is None:
        return 0
    return max(0, gate.fixed_pairs - gate.pairs)


def needed(record: ComparisonRecord, names: PolicyNames = LETTERS) -> list[str]:
    """About how many pairs would settle an inconclusive comparison."""
    gate = record.gate
    if gate.verdict != "inconclusive" or gate.ended == "vetoed":
        return []
    if gate.difference == 0.0:
        return ["No difference was seen so far: more pairs like these would not settle it."]
    if record.needed_pairs is None:
        return []
    count = record.needed_pairs
    about = f"more than {count:,}" if count >= MOST_NEEDED else f"about {count:,}"
    what, then = "new pairs", ""
    if gate.ended == "open" and count <= gate.max_pairs:
        what = "pairs in all"
    elif count >= MOST_NEEDED:
        pass
    elif flags := flags_to_settle(record):
        # Of a gate the whole command can be said.
        then = f" Ask again with {flags}: it runs fresh pairs." if names == LETTERS else ""
    else:
        then = " Judge them alone, without those used here."
    return [
        f"To settle it: if {names.a} and {names.b} really differ by the "
        f"{_signed(record, gate.difference)} seen here, {about} {what} show it 8 times in 10.{then}"
    ]


def flags_to_settle(record: ComparisonRecord) -> str:
    """With which `lefleet compare` would settle an inconclusive comparison; empty where it could
    not, or need not."""
    gate, count = record.gate, record.needed_pairs
    is_unclear = gate.verdict == "inconclusive" and gate.ended != "vetoed"
    can_run = bool(record.episodes_file and record.candidate_path and gate.difference)
    if not is_unclear or not can_run or count is None or count >= MOST_NEEDED:
        return ""
    effect = _two_digits_down(abs(gate.difference))
    asked = CompareOptions(alpha=gate.alpha_better, min_effect=min(effect, gate.min_effect))
    smaller = f" --min-effect {asked.min_effect:g}" if asked.min_effect != _USUAL.min_effect else ""
    level = f" --alpha {asked.alpha:g}" if asked.alpha != _USUAL.alpha else ""
    return f"--max-pairs {count}{smaller}{level}"


def _seen(record: ComparisonRecord, names: PolicyNames) -> str:
    gate = record.gate
    if record.metric == "progress":
        further = "further" if gate.difference >= 0 else "less far"
        return (
            f"in {_pairs(gate.pairs)} {names.a} got {abs(gate.difference):.2f} {further} on average"
        )
    return f"of {_pairs(gate.pairs)}, {names.a} won {gate.wins} and lost {gate.losses}"


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _pairs(count: int) -> str:
    return "1 pair" if count == 1 else f"{count} pairs"


def _signed(record: ComparisonRecord, value: float) -> str:
    return _number(record, value) + ("" if record.metric == "progress" else " points")


def _number(record: ComparisonRecord, value: float) -> str:
    return f"{value:+.2f}" if record.metric == "progress" else f"{100 * value:+.1f}"


def _size(record: ComparisonRecord, value: float) -> str:
    return f"{value:.2g}" if record.metric == "progress" else f"{100 * value:.3g} points"


def _two_digits_down(value: float) -> float:
    places = 1 - floor(log10(value))
    return floor(value * 10**places) / 10**places
