"""Evaluation in any other LeRobot environment, by LeRobot's own `lerobot-eval`."""

import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from lefleet.errors import ChildKilled, StageFailed
from lefleet.process import exit_words, launch, oom_kills, stop
from lefleet.records import EpisodeRecord, EvaluateRequest
from lefleet.records.evaluate import PolicyRole
from lefleet.stages.folder import StageFolder
from lefleet.stages.journal import Journal
from lefleet.stages.progress import Progress, Update
from lefleet.stages.train_log import last_words, split_lines


def eval_command(request: EvaluateRequest, checkpoint: str, output: Path) -> tuple[str, ...]:
    """The command line: a pure function of the request."""
    flags = {
        "policy.path": checkpoint,
        "policy.device": request.device,
        **{f"env.{name}": value for name, value in request.env.items()},
        "eval.n_episodes": str(request.episodes_per_task),
        "eval.batch_size": str(min(request.batch_size, request.episodes_per_task)),
        "seed": str(request.seed),
        "output_dir": str(output),
    }
    program = (sys.executable, "-m", "lerobot.scripts.lerobot_eval")
    return (*program, *(f"--{name}={value}" for name, value in flags.items()))


def run_stock(
    request: EvaluateRequest,
    roles: Mapping[str, str],
    journal: Journal,
    stage: StageFolder,
    progress: Progress,
) -> None:
    """Append every policy's whole block that is not there yet; `roles` are paths by role."""
    for number, (name, path) in enumerate(roles.items()):
        role: PolicyRole = "candidate" if name == "candidate" else "baseline"
        progress(Update(number, len(roles), "policies", "lerobot-eval is running"))
        if not any(line.policy == role for line in journal.lines):
            # All lines of one policy at once, so that none means not run.
            journal.extend(stock_episodes(request, role, path, stage))


def stock_episodes(
    request: EvaluateRequest, role: PolicyRole, checkpoint: str, stage: StageFolder
) -> Iterator[EpisodeRecord]:
    """Run one policy's whole block; lerobot-eval reports all episodes at its end."""
    output = stage.fresh(role)
    before = oom_kills()
    with stage.log.open("ab") as log:
        child = launch(eval_command(request, checkpoint, output), stdout=log, stderr=log)
        try:
            code = child.wait()
        finally:
            stop(child)
    words, where = exit_words(code, before), f"The whole log is {stage.log}."
    if code < 0:
        raise ChildKilled(f"lerobot-eval {words}.", where)
    if code:
        said = last_words(split_lines(stage.log.read_text(errors="replace")))
        raise StageFailed(f"lerobot-eval {words}: {said or 'it printed nothing'}.", where)
    info = msgspec.json.decode((output / "eval_info.json").read_bytes())
    for task in info["per_task"]:
        metrics = task["metrics"]
        outcomes = zip(metrics["successes"], metrics["max_rewards"], strict=True)
        for number, (success, reward) in enumerate(outcomes):
            yield EpisodeRecord(
                policy=role,
                task=f"{task['task_group']}-{task['task_id']}",
                seed=request.seed + number,
                success=bool(success),
                progress=1.0 if success else min(max(float(reward), 0.0), 0.99),
                length=0,
            )
