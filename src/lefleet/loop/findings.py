"""What was found about a run before it begins, for people and for the run."""

from collections.abc import Iterator, Sequence
from typing import Literal

from lefleet.errors import BadInput
from lefleet.records import RunConfig
from lefleet.records.border import Strict


class CheckResult(Strict, frozen=True, kw_only=True):
    """One finding. `state` is ok, warning (works with less) or problem (does not work)."""

    name: str
    """What was looked at; of a config the field."""
    state: Literal["ok", "warning", "problem"]
    found: str
    remedy: str = ""


class Preflight(Strict, frozen=True, kw_only=True):
    """What was found about a run that is to begin."""

    config: RunConfig
    """With the device that it means on this machine, where that can be used."""
    results: tuple[CheckResult, ...]

    def require_ok(self) -> RunConfig:
        """The config; BadInput with the first problem."""
        problems = [one for one in self.results if one.state == "problem"]
        if not problems:
            return self.config
        first, more = problems[0], len(problems) - 1
        rest = f" And {more} further problem{'s' if more > 1 else ''}." if more else ""
        raise BadInput(f"{first.name}: {first.found}.", f"{first.remedy}{rest}".strip())

    def besides_first_problem(self) -> tuple[CheckResult, ...]:
        """What is worth telling beside the error of `require_ok`."""
        first = next((one for one in self.results if one.state == "problem"), None)
        return tuple(one for one in self.results if one.state != "ok" and one is not first)


def result_lines(results: Sequence[CheckResult]) -> Iterator[str]:
    """For a person: a line for each, and one for its remedy, below the last that it helps."""
    for number, one in enumerate(results, 1):
        yield f"{one.state:8} {one.name}: {one.found}"
        if one.remedy and all(one.remedy != later.remedy for later in results[number:]):
            yield f"{'':8} -> {one.remedy}"


def refused(error: BadInput, prefix: str = "") -> CheckResult:
    """A refusal as a finding: its first words name the field."""
    name, _, found = error.problem.partition(": ")
    return CheckResult(
        name=f"{prefix}{name}",
        state="problem",
        found=found.removesuffix("."),
        remedy=error.remedy,
    )
