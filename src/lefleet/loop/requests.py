"""The request of every stage, and the seeds that it may use: pure functions.

Every purpose, run and cycle has seeds of its own. Only evaluation uses the same ones in every cycle
of a run, so that rates can be compared.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from lefleet.errors import BadInput
from lefleet.loop.state import RunState, is_same
from lefleet.records import (
    CompareRequest,
    DatasetSource,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ExpertGrowth,
    GateLevel,
    ImproveRequest,
    OriginData,
    Proposal,
    Request,
    RunConfig,
    RunOrigin,
    SeedBlock,
    TrainRequest,
)
from lefleet.sim.tasks import resolve_tasks

PER_RUN = 1_000_000
PER_CYCLE = 10_000
_RUNS = 100
_CYCLES = PER_RUN // PER_CYCLE


@dataclass(frozen=True, kw_only=True)
class CycleInputs:
    """All that the requests of one cycle depend on."""

    config: RunConfig
    run_folder: Path
    cycle: int
    rung: int
    """Rung of the ladder that the cycle trains on."""
    blessed: str
    """Path of the blessed checkpoint; empty where there is none."""
    continues: bool
    """Whether the blessed checkpoint was trained on the same rung."""
    origin: RunOrigin | None
    """Another run that this one started from."""
    level: GateLevel
    """Of the cycle's gate, if it has one."""
    baseline_rate: float | None
    """Outcome to expect of the blessed checkpoint; None where it is not known."""
    mixes: dict[int, int]
    """Episodes that policies made and that are part of the cycle's data, by the cycle that made
    them."""
    proposal: Proposal | None
    """What the cycle does; None in cycles of older ledgers."""

    def stage(self, name: str) -> str:
        """Folder of a stage of this cycle."""
        return str(stage_folder(self.run_folder, self.cycle, name))

    def first_seed(self, purpose: SeedBlock) -> int:
        """First of the seeds that belong to this cycle."""
        return first_seed(purpose, self.config.seed, seed_cycle(self.origin, self.cycle))


def cycle_inputs(state: RunState, run_folder: Path, cycle: int) -> CycleInputs:
    """What the ledger says about `cycle`, which has begun or comes next."""
    blessed = state.blessed()
    return CycleInputs(
        config=state.config,
        run_folder=run_folder,
        cycle=cycle,
        rung=state.rung(),
        blessed=blessed.path if blessed else "",
        continues=blessed is not None and _continues(state, blessed.digest),
        origin=state.origin,
        level=state.gate_level(cycle),
        baseline_rate=state.baseline_rate(),
        mixes=_mixes(state, cycle),
        proposal=state.cycles[cycle].proposal if cycle < len(state.cycles) else None,
    )


def _continues(state: RunState, blessed: str) -> bool:
    """Whether the current cycle trains on the rung that the blessed checkpoint was trained on."""
    rung = state.rung()
    if (origin := state.origin_of(blessed)) is not None:
        return is_same(state.config.ladder[rung], origin.rung)
    decisions = [one.decision for one in state.cycles if one.decision is not None]
    return any(one.candidate == blessed and one.rung == rung for one in decisions)


def _mixes(state: RunState, cycle: int) -> dict[int, int]:
    """What policies made before `cycle`, except where it led to a worse policy."""
    dropped = {
        one.index - 1
        for one in state.cycles[:cycle]
        if one.decision and one.decision.decision == "rollback"
    }
    made = {one.index: mix for one in state.cycles[:cycle] if (mix := one.mix()) and mix.added}
    return {index: sum(mix.added.values()) for index, mix in made.items() if index not in dropped}


def stage_folder(run_folder: Path, cycle: int, stage: str) -> Path:
    return run_folder / f"cycle_{cycle}" / stage


def make_request(inputs: CycleInputs, stage: str) -> Request:
    """What `stage` is asked to do."""
    match stage:
        case "collect":
            return _collect(inputs)
        case "train":
            return _train(inputs)
        case "evaluate":
            return _evaluate(inputs)
        case "gate":
            return _gate(inputs)
        case _:
            return _improve(inputs)


def seed_cycle(origin: RunOrigin | None, cycle: int) -> int:
    """The number that `cycle` has in the seeds of a run and of all that --from connects with it."""
    return cycle + (origin.seed_cycles if origin else 0)


def first_seed(purpose: SeedBlock, run_seed: int, cycle: int) -> int:
    """First of the seeds that belong to `cycle`; evaluation does not depend on it."""
    if run_seed >= _RUNS:
        raise BadInput(f"seed: {run_seed} is too large.", f"Choose one from 0 to {_RUNS - 1}.")
    if cycle >= _CYCLES:
        raise _too_many_cycles()
    offset = 0 if purpose is SeedBlock.EVALUATE else cycle * PER_CYCLE
    return int(purpose) + run_seed * PER_RUN + offset


def free_cycles(taken: Iterable[range], cycles: int) -> int:
    """Where `cycles` cycles may begin in the seeds of which other runs have `taken` these.

    In the middle of the largest gap: the runs before and behind can then be extended, and so can
    this one.
    """
    gaps, end = [], 0
    for one in sorted(taken, key=lambda one: one.start):
        gaps.append(range(end, one.start))
        end = max(end, one.stop)
    gap = max((*gaps, range(end, _CYCLES)), key=len)
    if len(gap) < cycles:
        raise _too_many_cycles()
    return gap.start + (len(gap) - cycles) // 2 if gap.start else 0


def _too_many_cycles() -> BadInput:
    return BadInput(
        f"budgets.cycles: one seed is enough for {_CYCLES} cycles of a run and all that --from "
        "connects with it.",
        "Ask for fewer, or choose another seed.",
    )


def require_seeds(config: RunConfig, origin: RunOrigin | None) -> None:
    """Raise BadInput where there are not enough seeds for all cycles."""
    first_seed(SeedBlock.GATE, config.seed, seed_cycle(origin, config.budgets.cycles - 1))


def count_tasks(config: RunConfig) -> int:
    """Tasks of a run; one name may stand for a suite, of which the data tells the size."""
    if not config.evaluate.env:
        return len(run_tasks(config))
    texts = config.collect.tasks if isinstance(config.collect, DatasetSource) else ()
    return max(len(config.tasks), len(texts))


def run_tasks(config: RunConfig) -> tuple[str, ...]:
    """Tasks of a run; in another environment, as it names them."""
    return config.tasks if config.evaluate.env else resolve_tasks(config.tasks)


def scheduled(schedule: tuple[int, ...], cycle: int) -> int:
    """Episodes per task that there are in all after `cycle`; -1 is before the first."""
    numbers = (0, *schedule)
    position = cycle + 1
    if position < len(numbers):
        return numbers[position]
    return numbers[-1] + (position - len(numbers) + 1) * (numbers[-1] - numbers[-2])


def demonstrations(growth: ExpertGrowth, cycle: int) -> int:
    """Demonstrations per task that there are in all after `cycle`; -1 is before the first."""
    return scheduled(growth.episodes_per_task, cycle)


def new_demonstrations(growth: ExpertGrowth, cycle: int) -> int:
    """Demonstrations per task that the schedule adds in `cycle`."""
    return demonstrations(growth, cycle) - demonstrations(growth, cycle - 1)


def selection(config: RunConfig, source: DatasetSource, cycle: int) -> ExistingDataset:
    """What `cycle` takes of an existing dataset. Which episodes depends on the run's seed alone, so
    that runs of one seed take more of the same."""
    per_task, last = source.episodes_per_task, 0
    if isinstance(per_task, tuple):
        last = scheduled(per_task, max(cycle, config.budgets.cycles - 1))
        per_task = scheduled(per_task, cycle)
    return ExistingDataset(
        repo_id=source.repo_id,
        root=source.root,
        revision=source.revision,
        tasks=source.tasks or config.tasks,
        episodes_per_task=per_task,
        at_least=last,
        seed=config.seed,
    )


def _collect(inputs: CycleInputs) -> Request:
    config, cycle = inputs.config, inputs.cycle
    if isinstance(config.collect, DatasetSource):
        return selection(config, config.collect, cycle)
    number = new_demonstrations(config.collect, cycle)
    proposed = inputs.proposal.episodes if inputs.proposal else {}
    return ExpertDemos(
        tasks=config.tasks,
        episodes_per_task=number,
        episodes={task: count for task, count in proposed.items() if count != number},
        noise=config.collect.noise,
        cameras=config.collect.cameras,
        image_size=config.collect.image_size,
        env=config.evaluate.env,
        seed=inputs.first_seed(SeedBlock.COLLECT),
        add_to=_parts(inputs),
        add_to_digests=tuple(data.digest for data in _origin_data(inputs)),
    )


def _parts(inputs: CycleInputs) -> tuple[str, ...]:
    """The data that the run started with, everything collected before this cycle, and what
    policies made."""
    folder = inputs.run_folder
    first = [data.path for data in _origin_data(inputs)]
    demos = [stage_folder(folder, index, "collect") / "dataset" for index in range(inputs.cycle)]
    made = [stage_folder(folder, index, "improve") / "added" for index in inputs.mixes]
    return tuple(str(path) for path in (*first, *demos, *made))


def _origin_data(inputs: CycleInputs) -> tuple[OriginData, ...]:
    return inputs.origin.data if inputs.origin else ()


def _train(inputs: CycleInputs) -> Request:
    config = inputs.config
    rung = config.ladder[inputs.rung]
    resumes = inputs.continues and config.continue_training
    return TrainRequest(
        dataset=inputs.stage("collect"),
        tasks=_covered(config),
        policy_type=rung.policy_type,
        init=inputs.blessed if resumes else rung.init,
        policy=rung.policy,
        steps=rung.steps,
        batch_size=rung.batch_size,
        learning_rate=rung.learning_rate,
        num_workers=rung.num_workers,
        device=config.device,
        seed=config.seed * 1000 + seed_cycle(inputs.origin, inputs.cycle),
        rename_map=rung.rename_map,
        wandb="wandb" in config.track,
        extra_args=rung.extra_args,
    )


def _covered(config: RunConfig) -> tuple[str, ...]:
    """Tasks that the data must have. What experts demonstrate in other environments is all there,
    under texts that only the environment knows."""
    if not isinstance(config.collect, ExpertGrowth):
        return config.collect.tasks
    return () if config.evaluate.env else config.tasks


def _evaluate(inputs: CycleInputs) -> EvaluateRequest:
    config = inputs.config
    return EvaluateRequest(
        checkpoint=inputs.stage("train"),
        tasks=config.tasks,
        episodes_per_task=config.evaluate.episodes_per_task,
        seed=inputs.first_seed(SeedBlock.EVALUATE),
        videos_per_task=config.evaluate.videos_per_task,
        workers=config.evaluate.workers,
        device=config.device,
        env=config.evaluate.env,
    )


def _gate(inputs: CycleInputs) -> CompareRequest:
    config, gate = inputs.config, inputs.config.gate
    return CompareRequest(
        checkpoint=inputs.stage("train"),
        baseline=_blessed(inputs),
        tasks=config.tasks,
        max_pairs=gate.max_pairs,
        alpha_better=inputs.level.better,
        alpha_worse=inputs.level.worse,
        baseline_rate=inputs.baseline_rate,
        min_effect=gate.min_effect,
        metric=gate.metric,
        scope=gate.scope,
        look_every=gate.look_every,
        seed=inputs.first_seed(SeedBlock.GATE),
        initial_states=config.evaluate.initial_states,
        workers=config.evaluate.workers,
        device=config.device,
        env=config.evaluate.env,
        films=gate.films,
    )


def _improve(inputs: CycleInputs) -> ImproveRequest:
    config = inputs.config
    return ImproveRequest(
        checkpoint=_blessed(inputs),
        demos=inputs.stage("collect"),
        method=_method(inputs),
        tasks=config.tasks,
        episodes_per_task=config.improve.episodes_per_task,
        self_generated=sum(inputs.mixes.values())
        + sum(data.self_generated for data in _origin_data(inputs)),
        mixing_ratio=config.improve.mixing_ratio,
        seed=inputs.first_seed(SeedBlock.IMPROVE),
        device=config.device,
    )


def _method(inputs: CycleInputs) -> Literal["harvest", "correct"]:
    if inputs.proposal is not None:
        return "harvest" if inputs.proposal.action == "harvest" else "correct"
    return "harvest" if inputs.config.improve.method == "harvest" else "correct"


def _blessed(inputs: CycleInputs) -> str:
    if not inputs.blessed:
        raise ValueError("a gate and an improvement need a blessed checkpoint")
    return inputs.blessed
