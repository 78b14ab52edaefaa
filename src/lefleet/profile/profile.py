"""profile: success against latency, with a real server, a real network path and wall-clock time."""

import os
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from lefleet.durable import write_durably
from lefleet.errors import BadInput
from lefleet.process import Pool
from lefleet.profile.cells import (
    READY,
    EpisodeKey,
    RobotWork,
    delays_of,
    judge_envelope,
    keys_of,
    share_out,
    summarise,
)
from lefleet.records import DrivenEpisode, EnvelopeRecord, ProfileRequest, encode
from lefleet.records.profile import ENVELOPE_FILE
from lefleet.sim.encode import FPS
from lefleet.stages.folder import Journal, StageFolder
from lefleet.stages.progress import DIGESTING, LOADING, Progress, Update
from lefleet.stages.references import find_checkpoint, verify_pins
from lefleet.testbed.relay import Relay
from lefleet.testbed.server import PolicyServer, ServedCheckpoint

EPISODES = "episodes.jsonl"
_ROBOT = (sys.executable, "-m", "lefleet.profile.robot")


def profile(request: ProfileRequest, stage: StageFolder, progress: Progress) -> EnvelopeRecord:
    """Run every episode that is not in `episodes.jsonl` yet, then judge the envelope.

    What can be refused without the policy is refused before a process starts.
    """
    progress(LOADING)
    from lefleet.testbed.fit import require_fit, tasks_of

    checkpoint = find_checkpoint(request.checkpoint, "checkpoint")
    require_fit(checkpoint.path)
    _require_writable(checkpoint.path)
    tasks = tasks_of(checkpoint.path, request.tasks)
    keys = keys_of(request, tasks)
    progress(DIGESTING)
    stage.pin(checkpoint=checkpoint.digest)
    verify = verify_pins(stage, checkpoint=checkpoint)
    with Journal(stage.path / EPISODES, DrivenEpisode, verify) as journal:
        served = _run_missing(
            request, keys, checkpoint.path, journal=journal, stage=stage, progress=progress
        )
        record = _record(request, tasks, keys, journal, served)
    envelope = Path(checkpoint.path) / ENVELOPE_FILE
    if record.envelope_ms:
        write_durably(envelope, encode(record))
    elif not record.cells[0].success.successes:
        # What an earlier profile promised does not hold.
        envelope.unlink(missing_ok=True)
    return record


def _run_missing(
    request: ProfileRequest,
    keys: Sequence[EpisodeKey],
    checkpoint: str,
    *,
    journal: Journal,
    stage: StageFolder,
    progress: Progress,
) -> ServedCheckpoint:
    """Append the missing episodes, one delay after the other."""
    delays = delays_of(request)
    progress(Update.phase("starting the policy server"))
    with (
        PolicyServer(
            checkpoint, device=request.device, robots=request.robots, folder=stage.path
        ) as server,
        Pool(_ROBOT, request.robots, stage.log) as robots,
    ):
        served = server.wait_until_ready()
        _require_possible(request, served)
        progress(Update.phase("starting the robots"))
        list(robots.run([READY] * request.robots))
        for delay_ms in delays:
            there = _of_cell(journal, delay_ms)
            missing = [key for key in keys if key not in there]
            episodes = _cell(
                request, delay_ms, missing, checkpoint=checkpoint, port=server.port, robots=robots
            )
            for episode in episodes:
                journal.append(episode)
                so_far = _of_cell(journal, delay_ms).values()
                succeeded = sum(one.success for one in so_far)
                remark = f"at {delay_ms:g} ms {succeeded} of {len(so_far)} succeeded"
                done, total = len(journal.lines), len(delays) * len(keys)
                progress(Update(done, total, "episodes", remark))
        return served


def _cell(
    request: ProfileRequest,
    delay_ms: float,
    keys: Sequence[EpisodeKey],
    *,
    checkpoint: str,
    port: int,
    robots: Pool,
) -> Iterator[DrivenEpisode]:
    """Episodes at one delay as they end; the relay is there for as long."""
    jitter_s = request.jitter / 1000 if delay_ms else 0.0
    with Relay(port, delay_s=delay_ms / 1000, jitter_s=jitter_s, seed=request.seed) as relay:
        work = [
            RobotWork(
                task=run.task,
                first_seed=run.first_seed,
                episodes=run.episodes,
                checkpoint=checkpoint,
                port=relay.port,
                delay_ms=delay_ms,
                merge=request.merge,
                episode_length=request.episode_length,
            )
            for run in share_out(keys, request.robots)
        ]
        for line in robots.run(msgspec.json.encode(one) for one in work):
            yield msgspec.json.decode(line, type=DrivenEpisode)


def _of_cell(journal: Journal, delay_ms: float) -> dict[EpisodeKey, DrivenEpisode]:
    lines: list[DrivenEpisode] = journal.lines
    return {EpisodeKey(one.task, one.seed): one for one in lines if one.delay_ms == delay_ms}


def _record(
    request: ProfileRequest,
    tasks: tuple[str, ...],
    keys: Sequence[EpisodeKey],
    journal: Journal,
    served: ServedCheckpoint,
) -> EnvelopeRecord:
    by_delay = {delay_ms: _of_cell(journal, delay_ms) for delay_ms in delays_of(request)}
    reference = by_delay[0.0]
    cells = tuple(
        summarise(delay_ms, tasks, {key: found[key] for key in keys}, reference)
        for delay_ms, found in by_delay.items()
    )
    envelope = judge_envelope(cells, request.margin)
    return EnvelopeRecord(
        digest=served.digest,
        envelope_ms=envelope.envelope_ms,
        delay_ms=envelope.delay_ms,
        note=envelope.note,
        cells=cells,
        margin=request.margin,
        tasks=tasks,
        first_seed=request.seed,
        jitter_ms=request.jitter,
        merge=request.merge,
        robots=request.robots,
        fps=FPS,
        chunk_size=served.chunk_size,
        execute_steps=served.chunk_size if request.merge == "rtc" else served.n_action_steps,
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        episodes_file=EPISODES,
    )


def _require_writable(folder: str) -> None:
    if not os.access(folder, os.W_OK):
        raise BadInput(
            f"checkpoint: {folder} cannot be written, so its envelope could not be kept there.",
            "Copy the checkpoint to a folder of your own, and name the copy.",
        )


def _require_possible(request: ProfileRequest, served: ServedCheckpoint) -> None:
    """What only the loaded policy can tell."""
    if request.merge == "rtc" and not served.supports_rtc:
        raise BadInput("merge: this policy has no real-time chunking.", "Use aligned.")
    if served.serving_mode == "exclusive" and request.robots > 1:
        raise BadInput("robots: this policy serves one robot at a time.", "Use --robots 1.")
