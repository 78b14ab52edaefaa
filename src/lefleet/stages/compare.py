"""compare: is the candidate better than the baseline? As few pairs as the evidence allows."""

import traceback
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from itertools import batched

from lefleet.errors import BadInput
from lefleet.records import (
    CompareRequest,
    ComparisonRecord,
    EpisodeRecord,
    SeedBlock,
)
from lefleet.rollouts import (
    Act,
    EnvironmentDescription,
    EpisodeBatch,
    PlannedEpisode,
    Simulators,
    default_workers,
)
from lefleet.stages.cameras import rendered_cameras
from lefleet.stages.environment import (
    begin_environment,
    episode_tasks,
    require_own_episodes,
    require_runnable,
)
from lefleet.stages.evaluate import EPISODES, episode_of
from lefleet.stages.films import JudgedPair, film_chosen
from lefleet.stages.folder import Journal, StageFolder
from lefleet.stages.progress import (
    DIGESTING,
    STARTING_SIMULATION,
    Progress,
    Update,
    room_told,
)
from lefleet.stages.references import find_checkpoint, verify_pins
from lefleet.stages.verdict import (
    ComparisonSource,
    PairedEpisodes,
    Trial,
    comparison,
    e_value,
    gate_order,
)
from lefleet.stats import GateRule


def compare(request: CompareRequest, stage: StageFolder, progress: Progress) -> ComparisonRecord:
    """Run pairs until the gate is decided; what is in `episodes.jsonl` is not run again."""
    require_fresh(request.seed)
    environment = begin_environment(request.env, stage, progress)
    _require_listed_states(request, environment)
    tasks = episode_tasks(request, environment)
    order = gate_order(request, tasks)
    progress(DIGESTING)
    candidate = find_checkpoint(request.checkpoint, "checkpoint")
    baseline = find_checkpoint(request.baseline, "baseline")
    require_runnable(candidate, "checkpoint", environment)
    require_runnable(baseline, "baseline", environment)
    stage.pin(checkpoint=candidate.digest, baseline=baseline.digest)
    roles = {"candidate": candidate.path, "baseline": baseline.path}
    verify = verify_pins(stage, checkpoint=candidate, baseline=baseline)
    with Journal(stage.path / EPISODES, EpisodeRecord, verify) as journal:
        require_own_episodes(journal, stage)
        paired = PairedEpisodes(order, _gate_rule(request, len(order)), request.scope)
        for line in journal.lines:
            paired.add(line)

        def report() -> None:
            progress(_update(paired, len(order)))

        progress(STARTING_SIMULATION)
        running = _simulated(
            request,
            order,
            roles,
            paired,
            stage,
            on_begin=report,
            on_wait=room_told(progress),
        )
        with closing(running) as episodes:
            for episode in episodes:
                journal.append(episode)
                paired.add(episode)
                report()
        source = ComparisonSource(
            candidate=candidate.digest,
            baseline=baseline.digest,
            candidate_path=candidate.path,
            baseline_path=baseline.path,
            first_seed=request.seed,
            episodes=len(journal.lines),
            episodes_file=EPISODES,
            note=_note(request),
            tasks=tasks,
        )
    record = comparison(paired.judge, source)
    if request.films:
        _film(request, order, paired, stage, progress)
    return record


def _film(
    request: CompareRequest,
    order: Sequence[Trial],
    paired: PairedEpisodes,
    stage: StageFolder,
    progress: Progress,
) -> None:
    """Films of some of the pairs that were judged."""
    outcomes = paired.judge.outcomes
    judged = [
        JudgedPair(trial, outcome.candidate, outcome.baseline)
        for trial, outcome in zip(order, outcomes, strict=False)
    ]
    try:
        film_chosen(request, stage.path, judged, progress)
    except Exception:  # noqa: BLE001 - whatever befalls a film, the verdict stands
        traceback.print_exc()


def _gate_rule(request: CompareRequest, max_pairs: int) -> GateRule:
    return GateRule(
        alpha_better=request.alpha_better,
        alpha_worse=request.alpha_worse,
        baseline_rate=request.baseline_rate,
        max_pairs=max_pairs,
        min_effect=request.min_effect,
        look_every=request.look_every,
        metric=request.metric,
    )


def require_fresh(seed: int) -> None:
    """Raise BadInput where `seed` belongs to data or to the block of the displayed rate."""
    used = {SeedBlock.COLLECT: "data", SeedBlock.EVALUATE: "evaluations", SeedBlock.IMPROVE: "data"}
    purpose = used.get(max(block for block in SeedBlock if block <= seed))
    if purpose is not None:
        raise BadInput(
            f"seed: {seed} is one of those that {purpose} use.",
            f"Take a fresh one, from {int(SeedBlock.COMPARE)} on.",
        )


def _require_listed_states(
    request: CompareRequest, environment: EnvironmentDescription | None
) -> None:
    """Raise BadInput where the environment has fewer initial states than the gate counts on."""
    listed = environment.initial_states if environment else 0
    if listed and not 0 < request.initial_states <= listed:
        raise BadInput(
            f"initial_states: {request.env['type']} has {listed} for each task, the gate counts on "
            f"{request.initial_states or 'a new one for every seed'}.",
            f"Set it to {listed}: --initial-states {listed}, in a run evaluate.initial_states.",
        )


def _simulated(
    request: CompareRequest,
    order: Sequence[Trial],
    roles: dict[str, str],
    paired: PairedEpisodes,
    stage: StageFolder,
    *,
    on_begin: Callable[[], None],
    on_wait: Callable[[bool], None],
) -> Generator[EpisodeRecord]:
    """Missing episodes as they end, until the gate is decided."""
    workers = request.workers or default_workers(request.device, request.env)
    with Simulators(
        workers=workers, device=request.device, log=stage.log, on_wait=on_wait
    ) as simulators:
        for finished in simulators.run(_batches(request, order, roles, paired), on_begin):
            yield episode_of(finished.label, finished, stage.path)
            if paired.judge.decided:
                return


def _batches(
    request: CompareRequest, order: Sequence[Trial], roles: dict[str, str], paired: PairedEpisodes
) -> Iterator[EpisodeBatch]:
    """Asked for the next batch whenever a worker is free, until the gate is decided.

    Rows are laid out over all pairs and thinned out afterwards, as in an evaluation.
    """
    cameras = {role: rendered_cameras(path, request.env) for role, path in roles.items()}
    for trials in batched(order, request.batch_size):
        for role, path in roles.items():
            if paired.judge.decided:
                return
            planned = tuple(
                PlannedEpisode(
                    row=row, task=trial.task, seed=trial.seed, number=trial.seed - request.seed
                )
                for row, trial in enumerate(trials)
                if not paired.has(role, trial)
            )
            if planned:
                yield EpisodeBatch(
                    size=request.batch_size,
                    episodes=planned,
                    behaviour=Act(),
                    checkpoint=path,
                    label=role,
                    env=request.env,
                    cameras=cameras[role],
                    seed=trials[0].seed,
                )


def _update(paired: PairedEpisodes, total: int) -> Update:
    gate = paired.judge.gate
    detail = f"{gate.wins} won, {gate.losses} lost, e = {e_value(gate.better.log_e):.3g}"
    return Update(len(paired.judge.outcomes), total, "pairs", detail, is_limit=True)


def _note(request: CompareRequest) -> str:
    if not request.initial_states:
        return ""
    return (
        f"The environment has {request.initial_states} initial states per task: "
        "the verdict is about these."
    )
