"""Small complete values of every record type."""

import shutil
from pathlib import Path

from lefleet.records import (
    AttemptCounts,
    CheckpointContract,
    CheckpointRecord,
    ComparisonRecord,
    DatasetRecord,
    DelayCell,
    DrivenEpisode,
    EnvelopeRecord,
    EpisodeRecord,
    EvaluationRecord,
    GateLook,
    GateResult,
    LossPoint,
    MixRecord,
    PolicyResult,
    Rate,
    TaskPairs,
)
from lefleet.rollouts import Finished
from lefleet.stages.folder import StageFolder
from lefleet.stages.references import find_checkpoint

PUSH = "push the puck to the goal"
DOOR = "open the door"


def dataset_record(**changes) -> DatasetRecord:
    values = {
        "repo_id": "local/dataset",
        "root": "/data/dataset",
        "revision": "",
        "episodes": (0, 1, 2),
        "digest": "d" * 64,
        "fps": 80,
        "frames": 30,
        "tasks": {PUSH: 2, DOOR: 1},
        "source": "expert",
        "tallies": {
            "push": AttemptCounts(kept=2, attempted=3),
            "door-open": AttemptCounts(kept=1, attempted=1),
        },
        "parents": ("e" * 64,),
        "total_episodes": 3,
    }
    return DatasetRecord(**values | changes)


def contract() -> CheckpointContract:
    return CheckpointContract(
        action_names=("dx", "dy"),
        vectors={"observation.state": ("x", "y")},
        cameras={"observation.images.top": (3, 64, 64)},
        fps=80,
        policy_type="act",
        robot_type="sawyer",
        tasks=(PUSH,),
        dataset_digest="d" * 64,
    )


def loss_point(step: int = 50, loss: float | None = 0.5) -> LossPoint:
    return LossPoint(step=step, loss=loss, grad_norm=1.5, learning_rate=1e-3)


def checkpoint_record(**changes) -> CheckpointRecord:
    values = {
        "path": "/train/pretrained_model",
        "digest": "c" * 64,
        "policy_type": "act",
        "steps": 100,
        "final_loss": 0.25,
        "curve": (loss_point(50, 0.5), loss_point(100, 0.25)),
        "contract": contract(),
        "init_digest": "b" * 64,
        "resumed_at": (50,),
    }
    return CheckpointRecord(**values | changes)


def episode(task: str = "push", seed: int = 0, *, success: bool = True, **changes) -> EpisodeRecord:
    values = {"policy": "candidate", "progress": 0.5, "length": 10, "video": ""}
    return EpisodeRecord(task=task, seed=seed, success=success, **values | changes)


def finished(task: str = "push", seed: int = 0, labelled: int = 5) -> Finished:
    return Finished(
        task=task, seed=seed, success=labelled > 0, progress=0.5, length=10, labelled=labelled
    )


def policy_result(successes: int) -> PolicyResult:
    rate = Rate(successes=successes, episodes=4, rate=successes / 4, interval=(0.1, 0.9))
    return PolicyResult(
        checkpoint="/train/pretrained_model",
        digest="c" * 64,
        overall=rate,
        per_task={"push": rate},
        mean_progress=0.5,
        mean_length=12.5,
    )


def evaluation_record(**changes) -> EvaluationRecord:
    values = {
        "result": policy_result(3),
        "tasks": ("push",),
        "first_seed": 100_000_000,
        "episodes_per_task": 4,
        "episodes_file": "episodes.jsonl",
        "videos_note": "no graphics",
    }
    return EvaluationRecord(**values | changes)


def gate_result(**changes) -> GateResult:
    values = {
        "verdict": "inconclusive",
        "ended": "exhausted",
        "pairs": 4,
        "wins": 3,
        "losses": 1,
        "e_value": 1.6,
        "e_worse": 0.6,
        "p_value": 0.3,
        "p_worse": 0.9,
        "difference": 0.5,
        "interval": (-0.4, 0.9),
        "alpha_better": 0.03,
        "alpha_worse": 0.03,
        "min_effect": 0.15,
        "max_pairs": 4,
        "fixed_pairs": 100,
    }
    return GateResult(**values | changes)


def comparison_record(**changes) -> ComparisonRecord:
    rate = Rate(successes=3, episodes=4, rate=0.75, interval=(0.1, 0.9))
    look = GateLook(
        pairs=4,
        wins=3,
        losses=1,
        log_e=0.5,
        p_value=0.3,
        p_worse=0.9,
        interval=(-0.4, 0.9),
        power=0.5,
    )
    values = {
        "gate": gate_result(),
        "metric": "success",
        "scope": "pooled",
        "candidate": "c" * 64,
        "baseline": "b" * 64,
        "candidate_path": "/train/pretrained_model",
        "baseline_path": "/before/pretrained_model",
        "per_task": {"push": TaskPairs(pairs=4, wins=3, losses=1, candidate=rate, baseline=rate)},
        "looks": (look,),
        "first_seed": 300_010_000,
        "episodes": 8,
        "episodes_file": "episodes.jsonl",
    }
    return ComparisonRecord(**values | changes)


def mix_record(**changes) -> MixRecord:
    values = {
        "dataset": dataset_record(source="mix"),
        "method": "correct",
        "checkpoint_digest": "c" * 64,
        "tallies": {"push": AttemptCounts(kept=2, attempted=5)},
        "added": {"push": 1},
        "self_generated": 1,
        "note": "mixing_ratio 0.5 left out 1 of 2.",
    }
    return MixRecord(**values | changes)


def rate(successes: int, episodes: int) -> Rate:
    return Rate(
        successes=successes, episodes=episodes, rate=successes / episodes, interval=(0.0, 1.0)
    )


def driven_episode(**changes) -> DrivenEpisode:
    values = {
        "delay_ms": 0.0,
        "task": "push",
        "seed": 0,
        "success": True,
        "progress": 1.0,
        "length": 60,
        "ticks": 60,
        "fallbacks": 0,
        "late": 0,
        "action_age_ms": 80.0,
        "round_trips_ms": (7.0,),
    }
    return DrivenEpisode(**values | changes)


def delay_cell(**changes) -> DelayCell:
    values = {
        "delay_ms": 0.0,
        "success": rate(59, 60),
        "per_task": {"push": rate(59, 60)},
        "won": 0,
        "lost": 0,
        "least_difference": 0.0,
        "fallback_share": 0.0,
        "late_share": 0.0,
        "round_trip_p95_ms": 7.0,
        "action_age_ms": 80.0,
    }
    return DelayCell(**values | changes)


def envelope_record(**changes) -> EnvelopeRecord:
    cell = delay_cell(delay_ms=50.0, lost=1, least_difference=-0.089, round_trip_p95_ms=57.0)
    values = {
        "digest": "c" * 64,
        "envelope_ms": 57.0,
        "delay_ms": 50.0,
        "cells": (delay_cell(), cell),
        "margin": 0.15,
        "tasks": ("push",),
        "first_seed": 100_000_000,
        "jitter_ms": 0.0,
        "merge": "aligned",
        "robots": 2,
        "fps": 80.0,
        "chunk_size": 60,
        "execute_steps": 60,
        "made_at": "2026-01-01T00:00:00+00:00",
        "episodes_file": "episodes.jsonl",
    }
    return EnvelopeRecord(**values | changes)


def copy_of_weights(stage: Path, folder: Path) -> Path:
    """A checkpoint of its own, which a test may write beside."""
    return shutil.copytree(find_checkpoint(str(stage), "checkpoint").path, folder)


def finished_stage(folder: Path, request, record) -> Path:
    """A stage folder in which `request` has led to `record`."""
    with StageFolder(folder, request) as stage:
        stage.commit(record)
    return folder


TINY_ACT = {
    "pretrained_backbone_weights": "null",
    "dim_model": "16",
    "n_heads": "2",
    "dim_feedforward": "16",
    "n_encoder_layers": "1",
    "n_decoder_layers": "1",
    "use_vae": "false",
}
"""Settings of a policy with cameras that trains in no time, and learns nothing."""
