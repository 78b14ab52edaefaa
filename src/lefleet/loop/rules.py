"""The constitution of a run: kept with it, installed for its processes, watched for changes."""

import hashlib
from pathlib import Path
from typing import Any

from lefleet.constitution import (
    ConstitutionSource,
    Grants,
    Rules,
    find,
    install,
    packaged,
    restored,
    rules_for,
    rules_for_grants,
    stored,
)
from lefleet.constitution.text import differences
from lefleet.errors import BadInput, Denied
from lefleet.ledger import Ledger, RunRow
from lefleet.loop.approvals import ApprovalQuestion, constitution_question, hardware_question
from lefleet.loop.state import RunState, stored_origin
from lefleet.loop.steps import EndRun
from lefleet.records import Request, RunConfig, RunOrigin


def begin_rules(workdir: Path, config: RunConfig, origin: RunOrigin | None) -> Rules:
    """The rules of a run that is about to begin; Denied where they do not allow its config.

    A config may come from somebody else, so a constitution that it names may only forbid more than
    that of the work folder.
    """
    rules = rules_for(find(workdir, config.constitution), config, workdir, origin)
    if config.constitution and (owned := find(workdir)).path:
        ours = rules_for(owned, config, workdir, origin)
        for one in differences(ours, rules):
            if one.is_looser:
                raise Denied(
                    "constitution",
                    f"{config.constitution} allows more than {owned.path}: {one.field}: "
                    f"{one.words}.",
                    f"Allow it in {owned.path} too, or name no other constitution.",
                )
    rules.check_config(config)
    return rules


def corrected_rules(row: RunRow, workdir: Path, config: RunConfig) -> dict[str, Any] | None:
    """The rules of a run whose config a person has corrected, to be stored with it: the same
    constitution, and what the config names now. Denied where they do not allow it; None in runs of
    older ledgers, which get theirs when they continue."""
    if row.constitution is None:
        return None
    before = restored(row.constitution)
    source = ConstitutionSource(path=before.source, constitution=before.constitution)
    rules = rules_for(source, config, workdir, stored_origin(row))
    rules.check_config(config)
    return stored(rules)


def launch_rules(workdir: Path) -> Rules:
    """Those that come with LeFleet, which allow its own programs in this work folder: the run's are
    installed by the controller before it does anything, and a denial is then told by the run."""
    source = ConstitutionSource(path="", constitution=packaged())
    return rules_for_grants(source, Grants(folders=(str(workdir),)))


def denial(error: Denied, cycle: int) -> dict[str, Any]:
    """What an event tells of a denial."""
    return {
        "cycle": cycle,
        "rule": error.rule,
        "reason": error.reason,
        "remedy": error.remedy,
    }


class RunRules:
    """The rules that hold for one run. The ledger's are the truth: a file that was edited counts
    only after a person has approved it, and what is in the environment never does."""

    def __init__(self, ledger: Ledger, workdir: Path, row: RunRow, config: RunConfig) -> None:
        self._ledger = ledger
        self._workdir = workdir
        self._run = row.id
        self._config = config
        self._origin = stored_origin(row)
        self._stored = row.constitution

    def install(self) -> None:
        """Take the rules from the ledger; a run of an older ledger gets those of now."""
        if self._stored is None:
            self._adopt(begin_rules(self._workdir, self._config, self._origin))
        else:
            self._hold(restored(self._stored))

    def review(self, state: RunState) -> ApprovalQuestion | None:
        """What to ask about a constitution that has changed; None where nothing is to be asked."""
        try:
            found = find(self._workdir, self._config.constitution)
        except BadInput as error:
            return self._unless_asked(state, self._broken(str(error), state.current.index))
        if not found.path and not self.current.source:
            return None
        changed = rules_for(found, self._config, self._workdir, self._origin)
        if changed.digest == self.current.digest:
            return None
        asked = state.approval("constitution", changed.digest)
        is_approved = asked is not None and asked.answer is not None and asked.answer.approved
        if is_approved or self._config.approvals.constitution == "auto":
            changed.check_config(self._config)
            self._adopt(changed)
            if asked is not None:
                self._ledger.approvals.retire(asked)
            return None
        found_differences = differences(self.current, changed)
        changes = [f"{one.field}: {one.words}" for one in found_differences]
        question = constitution_question(
            state.current.index, changed.digest, found.path, changes, problem=""
        )
        return self._unless_asked(state, question)

    def hardware(
        self, state: RunState, cycle: int, request: Request
    ) -> ApprovalQuestion | EndRun | None:
        """What to ask before a stage moves something real, or that the run ends because a person
        said no; None where it may work."""
        plan = self._config.approvals
        if plan.real_hardware == "auto" or not self.current.uses_hardware(request):
            return None
        question = hardware_question(cycle, f"the environment {self._config.evaluate.env}")
        asked = state.approval(question.kind, question.subject)
        if asked is None or asked.answer is None:
            return question
        if asked.answer.approved:
            return None
        why = f": {asked.answer.why}" if asked.answer.why else ""
        return EndRun("stopped", f"moving real hardware was rejected by {asked.answer.who}{why}")

    @property
    def moves_hardware(self) -> bool:
        return self.current.uses_hardware(self._config)

    def _hold(self, rules: Rules) -> None:
        install(rules, self._workdir / self._run)
        self.current = rules

    def _adopt(self, rules: Rules) -> None:
        self._ledger.set_constitution(self._run, stored(rules), rules.digest)
        self._hold(rules)

    def _broken(self, problem: str, cycle: int) -> ApprovalQuestion:
        """A file that is missing or wrong: the rules of before hold, if a person says so."""
        path = Path(self._config.constitution or self.current.source)
        content = path.read_bytes() if path.is_file() else b""
        digest = hashlib.sha256(content).hexdigest()
        return constitution_question(cycle, digest, str(path), [], problem)

    @staticmethod
    def _unless_asked(state: RunState, question: ApprovalQuestion) -> ApprovalQuestion | None:
        asked = state.approval(question.kind, question.subject)
        return question if asked is None else None
