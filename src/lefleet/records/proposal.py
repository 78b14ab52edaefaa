"""What a cycle should do: the plan for proposals, a proposal, and the stage that asks a model."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from lefleet.records.border import Strict
from lefleet.records.fields import NotNegative, Positive, Share

ProposedAction = Literal["demonstrations", "corrections", "harvest"]


class ProposePlan(Strict, frozen=True, kw_only=True):
    """How the new episodes of a cycle are divided, and whether a language model is asked."""

    split: Literal["uniform", "failure"] = "failure"
    """uniform: as many new demonstrations for each task. failure: more for tasks that fail more
    often, or of which less is known."""
    floor: Share = 0.5
    """At least this share of a uniform split goes to every task."""
    model: str = ""
    """provider:model[@base_url], for instance openai-chat:qwen3@http://127.0.0.1:8000/v1. Empty:
    none is asked."""
    candidates: Annotated[int, Meta(ge=1, le=10)] = 3
    """Proposals that the model makes before the best is chosen and refined."""
    timeout_s: Annotated[float, Meta(gt=0.0, le=3600.0)] = 60.0
    """For one question to the model, all retries together."""
    retries: Annotated[int, Meta(ge=0, le=5)] = 2
    """Further questions after an answer that cannot be used."""
    max_answer_tokens: Positive = 2000


class Proposal(Strict, frozen=True, kw_only=True):
    """What one cycle collects, and what its blessed policy may add at its end."""

    cycle: int
    action: ProposedAction
    """demonstrations: only these. corrections, harvest: at the cycle's end the blessed policy also
    makes data for the next one, by the method correct or harvest."""
    episodes: dict[str, NotNegative]
    """New demonstrations by task; empty where the run has a dataset of its own."""
    source: str
    """`schedule`, or the language model that proposed it."""
    why: str
    """One line for a person."""


class ProposalLimits(Strict, frozen=True, kw_only=True):
    """What a proposal may vary; anything else is clamped or refused."""

    episodes: NotNegative
    """New demonstrations of all tasks together."""
    floor: NotNegative
    """Of each task."""
    ceiling: NotNegative
    """Of each task."""
    tasks: tuple[str, ...]
    actions: tuple[ProposedAction, ...]


class ProposeRequest(Strict, frozen=True, kw_only=True, tag_field="kind", tag="propose"):
    """Ask a language model what a cycle should do."""

    plan: ProposePlan
    fallback: Proposal
    """The deterministic proposal, used where no answer is usable."""
    limits: ProposalLimits
    evidence: dict[str, Any]
    """What the model is told as data: results, history, knowledge, findings of its lint."""
    token_budget: NotNegative = 0
    """Tokens that are left of the run's budget. 0: no limit."""


class ProposalRecord(Strict, frozen=True, kw_only=True, tag_field="kind", tag="proposal_record"):
    """What came of asking a model. It never fails a run: `proposal` may be the fallback."""

    proposal: Proposal
    is_fallback: bool
    reason: str = ""
    """Why the fallback was used, or what was clamped."""
    input_tokens: NotNegative = 0
    output_tokens: NotNegative = 0
    candidates: tuple[Proposal, ...] = ()
    """Usable proposals in the order in which they were made."""
