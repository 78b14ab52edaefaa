"""Where the stages of a run are carried out: on this machine, or on the nodes of a cluster."""

from typing import Annotated, Literal

from msgspec import Meta, field

from lefleet.records.border import Strict
from lefleet.records.fields import NotNegative

Amount = Annotated[float, Meta(ge=0.0, le=1e6)]
Claimant = Literal["collect", "train", "evaluate", "gate", "improve", "propose", "worker"]
"""A stage, or one of the workers that step its episodes."""


class StageResources(Strict, frozen=True, kw_only=True):
    """What a cluster reserves on one node."""

    cpus: Amount = 0.0
    gpus: Amount = 0.0
    custom: dict[str, Amount] = field(default_factory=dict)
    """Resources of other names that nodes were started with."""


class ExecutorPlan(Strict, frozen=True, kw_only=True):
    """Who carries out stages."""

    type: Literal["local", "ray"] = "local"
    """local: processes of this machine. ray: jobs of a Ray cluster, whose nodes all see the work
    folder under the same path."""
    address: str = ""
    """Of ray: the head's dashboard, for instance http://10.0.0.5:8265."""
    token_file: str = ""
    """File with the cluster's token. Empty: where Ray looks for it, which is RAY_AUTH_TOKEN,
    RAY_AUTH_TOKEN_PATH, or ~/.ray/auth_token."""
    resources: dict[Claimant, StageResources] = field(default_factory=dict)
    """By stage. Not named: one CPU for train and for each worker, none for other stages, whose own
    process does little."""
    workers: NotNegative = 0
    """Processes on all nodes together that step the episodes of one stage, where the stage does not
    say how many. 0: one for each CPU of the cluster."""

    @property
    def is_here(self) -> bool:
        """Whether stages are carried out on this machine."""
        return self.type == "local"
