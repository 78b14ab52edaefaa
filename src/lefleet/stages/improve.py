"""improve: what a policy does or gets wrong becomes data, mixed into the demonstrations."""

import math
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction

from lefleet.errors import BadInput
from lefleet.records import AddedData, ImproveRequest, MixRecord
from lefleet.rollouts import Act, Finished, TakeOver
from lefleet.stages.cameras import require_rendering
from lefleet.stages.contract import own_layout, require_same_shape, require_simulable
from lefleet.stages.folder import StageFolder
from lefleet.stages.gather import gather, rolled_out
from lefleet.stages.progress import DIGESTING, LOADING, Progress, Update
from lefleet.stages.references import find_checkpoint, find_dataset, verify_pins


def improve(request: ImproveRequest, stage: StageFolder, progress: Progress) -> MixRecord:
    """Gather, cap, merge. Keeping nothing is a result with a note, not an error."""
    progress(DIGESTING)
    checkpoint = find_checkpoint(request.checkpoint, "checkpoint")
    cameras = require_simulable(checkpoint, "checkpoint")
    require_rendering(cameras, "checkpoint")
    demos, told = find_dataset(request.demos, "demos")
    earlier = told + request.self_generated
    if earlier > len(demos.episodes):
        raise BadInput(
            f"self_generated: {request.demos} has only {len(demos.episodes)} episodes in all."
        )
    require_same_shape(demos.root, "demos", cameras)
    stage.pin(checkpoint=checkpoint.digest, demos=demos.digest)
    correct = request.method == "correct"
    behaviour = TakeOver(patience=request.patience) if correct else Act()
    wanted = rolled_out(request, checkpoint, behaviour, cameras=cameras)
    gathered = gather(wanted, stage, progress, verify_pins(stage, checkpoint=checkpoint))
    allowed = room(len(demos.episodes), earlier, request.mixing_ratio)
    candidates = gathered.interleaved()
    taken = candidates[:allowed]
    dataset = demos
    if taken:
        progress(LOADING)
        from lefleet.stages.datasets import describe_dataset, merge, write_dataset

        added = write_dataset(
            stage.fresh("added"),
            taken,
            progress,
            source=request.method,
            tallies=gathered.tallies,
            parents=(checkpoint.digest,),
            layout=own_layout(cameras),
        )
        progress(Update.phase("merging with the demonstrations"))
        mixed = merge((demos, added), stage.fresh("mix"), stage.fresh("scratch"))
        progress(DIGESTING)
        dataset = describe_dataset(
            mixed,
            range(mixed.total_episodes),
            source="mix",
            parents=(demos.digest, added.digest),
            added=AddedData(digest=added.digest, root=added.root, episodes=len(taken)),
        )
    return MixRecord(
        dataset=dataset,
        method=request.method,
        checkpoint_digest=checkpoint.digest,
        tallies=gathered.tallies,
        added=dict(Counter(episode.task for episode in taken)),
        self_generated=earlier + len(taken),
        note=_note(candidates, taken, request),
    )


def room(episodes: int, self_generated: int, ratio: float) -> int:
    """How many more self-generated episodes keep their share of the mix at or below `ratio`.

    `episodes` are all that are there now, `self_generated` of them made by policies.
    """
    # The ratio as it was written: 0.99 is 99/100, not the nearest binary number.
    share = Fraction(str(ratio))
    most = math.floor((episodes - self_generated) * share / (1 - share))
    return max(0, most - self_generated)


def _note(
    candidates: Sequence[Finished], taken: Sequence[Finished], request: ImproveRequest
) -> str:
    if not candidates:
        what = "success to keep" if request.method == "harvest" else "failure to correct"
        return f"No {what} was found; the data is unchanged."
    if len(taken) < len(candidates):
        dropped = len(candidates) - len(taken)
        return f"mixing_ratio {request.mixing_ratio:g} left out {dropped} of {len(candidates)}."
    return ""
