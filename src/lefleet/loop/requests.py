"""The request of every stage: a pure function of config and state."""

from pathlib import Path

from lefleet.loop.seeds import first_seed
from lefleet.loop.state import RunState
from lefleet.records import (
    CheckpointRecord,
    CompareRequest,
    DatasetSource,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ExpertGrowth,
    ImproveRequest,
    MixRecord,
    Request,
    RunConfig,
    SeedBlock,
    TrainRequest,
)
from lefleet.sim.tasks import resolve_tasks
from lefleet.stats import gate_alpha


def stage_folder(run_folder: Path, cycle: int, stage: str) -> Path:
    return run_folder / f"cycle_{cycle}" / stage


def make_request(state: RunState, run_folder: Path, cycle: int, stage: str) -> Request:
    """What `stage` of `cycle` is asked to do."""
    match stage:
        case "collect":
            return _collect(state, run_folder, cycle)
        case "train":
            return _train(state, run_folder, cycle)
        case "evaluate":
            return _evaluate(state.config, run_folder, cycle)
        case "gate":
            return _gate(state, run_folder, cycle)
        case _:
            return _improve(state, run_folder, cycle)


def count_tasks(config: RunConfig) -> int:
    """Tasks of a run; one name may stand for a suite, of which the data tells the size."""
    if not config.evaluate.env:
        return len(resolve_tasks(config.tasks))
    texts = config.collect.tasks if isinstance(config.collect, DatasetSource) else ()
    return max(len(config.tasks), len(texts))


def demonstrations(growth: ExpertGrowth, cycle: int) -> int:
    """Demonstrations per task that there are in all after `cycle`; -1 is before the first."""
    schedule = (0, *growth.episodes_per_task)
    position = cycle + 1
    if position < len(schedule):
        return schedule[position]
    return schedule[-1] + (position - len(schedule) + 1) * (schedule[-1] - schedule[-2])


def dropped_mixes(state: RunState, before: int) -> set[int]:
    """Cycles whose self-generated data led to a worse policy, as known before cycle `before`."""
    return {
        cycle.index - 1
        for cycle in state.cycles
        if cycle.index < before and cycle.decision and cycle.decision.decision == "rollback"
    }


def _collect(state: RunState, run_folder: Path, cycle: int) -> Request:
    config = state.config
    if isinstance(config.collect, DatasetSource):
        source = config.collect
        return ExistingDataset(
            repo_id=source.repo_id,
            root=source.root,
            revision=source.revision,
            tasks=source.tasks or config.tasks,
            episodes_per_task=source.episodes_per_task,
            seed=config.seed,
        )
    before = demonstrations(config.collect, cycle - 1)
    return ExpertDemos(
        tasks=config.tasks,
        episodes_per_task=demonstrations(config.collect, cycle) - before,
        noise=config.collect.noise,
        seed=first_seed(SeedBlock.COLLECT, config.seed, cycle),
        add_to=_parts(state, run_folder, cycle),
    )


def _parts(state: RunState, run_folder: Path, cycle: int) -> tuple[str, ...]:
    """Everything collected before `cycle`, and what policies made, except what was dropped."""
    earlier = [one.index for one in state.cycles if one.index < cycle]
    demos = [stage_folder(run_folder, index, "collect") / "dataset" for index in earlier]
    made = [stage_folder(run_folder, index, "improve") / "added" for index in _mixes(state, cycle)]
    return tuple(str(path) for path in (*demos, *made))


def _mixes(state: RunState, cycle: int) -> dict[int, MixRecord]:
    """What policies made and is part of a cycle's data."""
    dropped = dropped_mixes(state, before=cycle)
    return {
        one.index: mix
        for one in state.cycles
        if one.index < cycle
        and one.index not in dropped
        and (mix := one.mix()) is not None
        and mix.added
    }


def _self_generated(state: RunState, cycle: int) -> int:
    """Episodes of a cycle's data that policies made."""
    return sum(sum(mix.added.values()) for mix in _mixes(state, cycle).values())


def _train(state: RunState, run_folder: Path, cycle: int) -> Request:
    config = state.config
    rung = config.ladder[state.rung()]
    return TrainRequest(
        dataset=str(stage_folder(run_folder, cycle, "collect")),
        tasks=config.tasks if isinstance(config.collect, ExpertGrowth) else config.collect.tasks,
        policy_type=rung.policy_type,
        init=_start(state) or rung.init,
        policy=rung.policy,
        steps=rung.steps,
        batch_size=rung.batch_size,
        learning_rate=rung.learning_rate,
        num_workers=rung.num_workers,
        device=config.device,
        seed=config.seed * 1000 + cycle,
        rename_map=rung.rename_map,
        extra_args=rung.extra_args,
    )


def _start(state: RunState) -> str:
    """The blessed checkpoint, where the current rung may go on from it."""
    blessed = state.blessed()
    if blessed is None or not state.config.continue_training:
        return ""
    same_rung = any(
        cycle.decision is not None
        and cycle.decision.candidate == blessed.digest
        and cycle.decision.rung == state.rung()
        for cycle in state.cycles
    )
    return blessed.path if same_rung else ""


def _evaluate(config: RunConfig, run_folder: Path, cycle: int) -> EvaluateRequest:
    return EvaluateRequest(
        checkpoint=str(stage_folder(run_folder, cycle, "train")),
        tasks=config.tasks,
        episodes_per_task=config.evaluate.episodes_per_task,
        seed=first_seed(SeedBlock.EVALUATE, config.seed, cycle),
        videos_per_task=config.evaluate.videos_per_task,
        device=config.device,
        env=config.evaluate.env,
    )


def _gate(state: RunState, run_folder: Path, cycle: int) -> CompareRequest:
    config, gate = state.config, state.config.gate
    return CompareRequest(
        checkpoint=str(stage_folder(run_folder, cycle, "train")),
        baseline=_required(state.blessed()).path,
        tasks=config.tasks,
        max_pairs=gate.max_pairs,
        alpha=gate_alpha(gate.guarantee, gate.alpha, state.gates_before(cycle)),
        min_effect=gate.min_effect,
        metric=gate.metric,
        scope=gate.scope,
        look_every=gate.look_every,
        seed=first_seed(SeedBlock.GATE, config.seed, cycle),
        initial_states=config.evaluate.initial_states,
        env_tasks=count_tasks(config) if config.evaluate.env else 0,
        device=config.device,
        env=config.evaluate.env,
    )


def _improve(state: RunState, run_folder: Path, cycle: int) -> ImproveRequest:
    config = state.config
    return ImproveRequest(
        checkpoint=_required(state.blessed()).path,
        demos=str(stage_folder(run_folder, cycle, "collect")),
        method="harvest" if config.improve.method == "harvest" else "correct",
        tasks=config.tasks,
        episodes_per_task=config.improve.episodes_per_task,
        self_generated=_self_generated(state, cycle),
        mixing_ratio=config.improve.mixing_ratio,
        seed=first_seed(SeedBlock.IMPROVE, config.seed, cycle),
        device=config.device,
    )


def _required(blessed: CheckpointRecord | None) -> CheckpointRecord:
    if blessed is None:
        raise ValueError("a gate and an improvement need a blessed checkpoint")
    return blessed
