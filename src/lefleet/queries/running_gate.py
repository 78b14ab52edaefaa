"""The evidence of a gate that has not ended yet, judged here from the episodes that it has
written."""

import json
from contextlib import suppress
from pathlib import Path

import msgspec

from lefleet.errors import LeFleetError
from lefleet.queries.dataset_files import stamp
from lefleet.queries.kept import Kept
from lefleet.records import CompareRequest, ComparisonRecord, EpisodeRecord
from lefleet.stages.environment import begun_tasks
from lefleet.stages.evaluate import EPISODES
from lefleet.stages.folder import INPUTS
from lefleet.stages.verdict import ComparisonSource, PairedEpisodes, comparison, gate_order
from lefleet.stats import GateRule


def comparison_so_far(folder: Path, request: CompareRequest) -> ComparisonRecord | None:
    """The record of a gate as it would be if it ended now. None before its first look."""
    file = folder / EPISODES
    if not file.exists():
        return None
    return _KEPT.get(file, stamp(file), lambda: _judged(folder, request))


_KEPT: Kept[ComparisonRecord | None] = Kept(8)


def _judged(folder: Path, request: CompareRequest) -> ComparisonRecord | None:
    """None also where a file is damaged: the gate itself says so when it comes to it."""
    with suppress(OSError, ValueError, msgspec.DecodeError, LeFleetError):
        pins: dict[str, str] = json.loads((folder / INPUTS).read_bytes())
        # The last line may be half written.
        *lines, _ = (folder / EPISODES).read_bytes().split(b"\n")
        tasks = begun_tasks(request, folder)
        order = gate_order(request, tasks)
        paired = PairedEpisodes(order, _rule(request, len(order)), request.scope)
        for line in lines:
            paired.add(msgspec.json.decode(line, type=EpisodeRecord))
        if not paired.judge.gate.looks:
            return None
        return comparison(
            paired.judge,
            ComparisonSource(
                candidate=pins["checkpoint"],
                baseline=pins["baseline"],
                candidate_path=request.checkpoint,
                baseline_path=request.baseline,
                first_seed=request.seed,
                episodes=len(lines),
                episodes_file=EPISODES,
                note="",
                tasks=tasks,
            ),
        )
    return None


def _rule(request: CompareRequest, max_pairs: int) -> GateRule:
    return GateRule(
        alpha_better=request.alpha_better,
        alpha_worse=request.alpha_worse,
        baseline_rate=request.baseline_rate,
        max_pairs=max_pairs,
        min_effect=request.min_effect,
        look_every=request.look_every,
        metric=request.metric,
    )
