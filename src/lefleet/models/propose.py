"""propose: evidence becomes a proposal within limits, by way of a language model if one answers.

Three questions: several proposals, their scores, the best one refined. Each falls back one step: no
refinement, the best as it is; no scores, the first; no proposal, the request's fallback. What was
answered is in `answers.jsonl`, so a stage that was killed does not ask again.
"""

from typing import Any

import msgspec

from lefleet.models.clamp import has_choice, one_line
from lefleet.models.client import Asked, AskLimits, ModelName, Unusable, ask
from lefleet.models.curation import (
    PROPOSE,
    REFINE,
    SCORE,
    CandidateAnswer,
    CandidatesAnswer,
    Curated,
    CurationStep,
    ScoresAnswer,
    best,
    curated,
    distinct,
    document,
    shown,
)
from lefleet.records import Proposal, ProposalRecord, ProposeRequest
from lefleet.records.border import Strict
from lefleet.records.fields import NotNegative
from lefleet.stages.folder import Journal, StageFolder
from lefleet.stages.progress import Progress, Update

ANSWERS = "answers.jsonl"
_REASON_LENGTH = 500


class QuestionOutcome(Strict, frozen=True, kw_only=True):
    """What came of one question."""

    question: CurationStep
    answer: dict[str, Any] | None = None
    """As the model gave it; None where there was no usable one."""
    reason: str = ""
    """Why there is none."""
    input_tokens: NotNegative
    output_tokens: NotNegative


def propose(request: ProposeRequest, stage: StageFolder, progress: Progress) -> ProposalRecord:
    """Ask the model, and take from its answers what is within the limits."""
    name = ModelName.parse(request.plan.model)
    with Journal(stage.path / ANSWERS, QuestionOutcome) as journal:
        asking = _Asking(name, request, journal, progress)
        if not has_choice(request.limits):
            reason = "not asked, for there is nothing to choose"
            return asking.record(request.fallback, [reason], is_fallback=True)
        candidates, reasons = _candidates(asking)
        if not candidates:
            return asking.record(request.fallback, reasons, is_fallback=True)
        chosen = candidates[_chosen(asking, candidates, reasons)]
        final = _refined(asking, chosen, reasons)
        reasons += [f"fitted to the limits: {final.changes}"] if final.changes else []
        return asking.record(final.proposal, reasons, candidates=candidates)


def _candidates(asking: "_Asking") -> tuple[list[Curated], list[str]]:
    """Usable proposals, and why others are not."""
    count = asking.request.plan.candidates
    what = f"{count} proposals" if count > 1 else "a proposal"
    answer = asking.ask("propose", what, PROPOSE.format(count=count), CandidatesAnswer)
    if isinstance(answer, str):
        return [], [answer]
    made = [asking.curated(one) for one in answer.candidates[:count]]
    faults = [
        f"proposal {n} refused: {one}" for n, one in enumerate(made, 1) if isinstance(one, str)
    ]
    if not made:
        faults.append("the model made no proposal")
    return distinct([one for one in made if not isinstance(one, str)]), faults


def _chosen(asking: "_Asking", candidates: list[Curated], reasons: list[str]) -> int:
    """Index of the best candidate as the model scores them."""
    if len(candidates) == 1:
        return 0
    limits = asking.request.limits
    numbered = [{"index": n, **shown(one.proposal, limits)} for n, one in enumerate(candidates)]
    answer = asking.ask("score", "scores", SCORE, ScoresAnswer, candidates=numbered)
    found = best(answer, len(candidates)) if isinstance(answer, ScoresAnswer) else None
    if found is None:
        why = answer if isinstance(answer, str) else "no candidate was scored"
        reasons.append(f"not scored, so the first is taken: {why}")
    return found or 0


def _refined(asking: "_Asking", chosen: Curated, reasons: list[str]) -> Curated:
    """The chosen proposal as the model refines it."""
    candidate = shown(chosen.proposal, asking.request.limits)
    answer = asking.ask("refine", "a refinement", REFINE, CandidateAnswer, candidate=candidate)
    refined = answer if isinstance(answer, str) else asking.curated(answer)
    if isinstance(refined, str):
        reasons.append(f"not refined: {refined}")
        return chosen
    return refined


class _Asking:
    """Asks the questions of one request that its journal has no answer to, and counts tokens."""

    def __init__(
        self, name: ModelName, request: ProposeRequest, journal: Journal, progress: Progress
    ) -> None:
        self.request = request
        self._name = name
        self._journal = journal
        self._progress = progress

    def ask[T: Strict](
        self, question: CurationStep, what: str, instructions: str, kind: type[T], **more: Any
    ) -> T | str:
        """The answer, or why there is none."""
        for line in self._journal.lines:
            if line.question == question:
                return line.reason if line.answer is None else msgspec.convert(line.answer, kind)
        limits = self._limits()
        if limits is None:
            return "the token budget is used up"
        update = Update.phase(f"asking {self._name} for {what}")
        self._progress(update)
        outcome = ask(
            self._name,
            instructions,
            document(self.request, **more),
            kind,
            limits,
            on_wait=lambda: self._progress(update),
        )
        self._journal.append(_line(question, outcome))
        return outcome.reason if isinstance(outcome, Unusable) else outcome.value

    def curated(self, answer: CandidateAnswer) -> Curated | str:
        return curated(answer, self.request, self._name)

    def _limits(self) -> AskLimits | None:
        """What the next question may cost; None where nothing is left."""
        plan, budget = self.request.plan, self.request.token_budget
        left = budget - sum(self._tokens())
        if budget and left <= 0:
            return None
        return AskLimits(
            timeout_s=plan.timeout_s,
            retries=plan.retries,
            max_answer_tokens=plan.max_answer_tokens,
            token_budget=left if budget else 0,
        )

    def _tokens(self) -> tuple[int, int]:
        lines = self._journal.lines
        return sum(one.input_tokens for one in lines), sum(one.output_tokens for one in lines)

    def record(
        self,
        proposal: Proposal,
        reasons: list[str],
        *,
        candidates: list[Curated] | None = None,
        is_fallback: bool = False,
    ) -> ProposalRecord:
        tokens = self._tokens()
        return ProposalRecord(
            proposal=proposal,
            is_fallback=is_fallback,
            reason=one_line("; ".join(reasons), _REASON_LENGTH),
            input_tokens=tokens[0],
            output_tokens=tokens[1],
            candidates=tuple(one.proposal for one in candidates or ()),
        )


def _line(question: CurationStep, outcome: Asked[Any] | Unusable) -> QuestionOutcome:
    return QuestionOutcome(
        question=question,
        answer=msgspec.to_builtins(outcome.value) if isinstance(outcome, Asked) else None,
        reason=outcome.reason if isinstance(outcome, Unusable) else "",
        input_tokens=outcome.input_tokens,
        output_tokens=outcome.output_tokens,
    )
