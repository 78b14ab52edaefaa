"""One small profile with a real server and a real robot; others with scripted ones."""

import os
from collections.abc import Iterable, Iterator

import msgspec
import pytest

from lefleet import BadInput, ProfileRequest, StageFailed, run_stage
from lefleet.profile import profile as stage
from lefleet.profile.cells import READY, JudgedEnvelope, RobotWork
from lefleet.records import EnvelopeRecord, decode
from lefleet.records.profile import ENVELOPE_FILE
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.references import find_checkpoint
from tests.samples import copy_of_weights, driven_episode

DELAYS, EPISODES, STEPS = (0.0, 60.0), 2, 40
SERVED = {"digest": "d", "chunk_size": 10, "n_action_steps": 5, "supports_rtc": False}
FIRST = 100_000_000


@pytest.fixture(scope="module")
def life(weak, tmp_path_factory):
    """The checkpoint's folder, that of the stage, and the record."""
    folder = tmp_path_factory.mktemp("profile")
    weights = copy_of_weights(weak, folder / "weights")
    request = ProfileRequest(
        checkpoint=str(weights),
        tasks=("door-open",),
        episodes=EPISODES,
        delays=DELAYS,
        robots=1,
        episode_length=STEPS,
    )
    with pytest.MonkeyPatch.context() as patch:
        # Whether so few short episodes succeed is chance.
        patch.setattr(stage, "judge_envelope", lambda *_: JudgedEnvelope(60.0, 65.0))
        return weights, folder / "out", run_stage(request, folder / "out")


def test_the_record_says_what_was_measured(life):
    weights, _, record = life
    assert record.digest == checkpoint_digest(weights)
    assert [cell.delay_ms for cell in record.cells] == list(DELAYS)
    assert all(cell.success.episodes == EPISODES for cell in record.cells)
    calm, slow = record.cells
    assert 0 < calm.round_trip_p95_ms < slow.round_trip_p95_ms
    assert slow.round_trip_p95_ms >= 60
    assert slow.action_age_ms > calm.action_age_ms > 0
    assert (record.chunk_size, record.execute_steps, record.fps) == (10, 5, 80)


def test_a_chunk_that_is_shorter_than_the_delay_starves_the_robot(life):
    calm, slow = life[2].cells
    assert slow.fallback_share > 0.2 > calm.fallback_share


def test_the_envelope_is_kept_beside_the_weights_and_their_digest_stays(life):
    weights, out, record = life
    kept = (weights / ENVELOPE_FILE).read_bytes()
    assert decode(kept, EnvelopeRecord, "file") == record
    assert kept == (out / "record.json").read_bytes()
    assert find_checkpoint(str(weights), "checkpoint").digest == record.digest


def test_a_finished_profile_is_not_run_again(life):
    _, out, record = life
    request = decode((out / "request.json").read_bytes(), ProfileRequest, "file")
    assert run_stage(request, out) == record


def test_a_checkpoint_that_does_not_fit_is_refused_before_anything_starts(
    checkpoint_of, tmp_path, monkeypatch
):
    monkeypatch.setattr(stage, "PolicyServer", None)
    request = ProfileRequest(checkpoint=str(checkpoint_of("act_images")), tasks=("push",))
    with pytest.raises(BadInput, match="the policy looks through"):
        run_stage(request, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_refused(weak, tmp_path, monkeypatch):
    weights = copy_of_weights(weak, tmp_path / "weights")
    monkeypatch.setattr(stage, "PolicyServer", None)
    monkeypatch.setattr(stage.os, "access", lambda _, mode, **__: mode != os.W_OK)
    with pytest.raises(BadInput, match="its envelope could not be kept there"):
        run_stage(ProfileRequest(checkpoint=str(weights)), tmp_path / "out")


@pytest.mark.parametrize(
    ("changes", "served", "problem"),
    [
        ({"merge": "rtc"}, {}, "merge: this policy has no real-time chunking"),
        ({}, {"serving_mode": "exclusive"}, "robots: this policy serves one robot at a time"),
    ],
)
def test_what_the_policy_cannot_do_is_refused(changes, served, problem):
    found = stage.ServedCheckpoint(**SERVED | {"serving_mode": "shared"} | served)
    with pytest.raises(BadInput, match=problem):
        stage._require_possible(ProfileRequest(checkpoint="c", **changes), found)


class ScriptedRobots:
    """Stands for a pool of robots: every episode succeeds, until the machine stops."""

    def __init__(self, last: int = 99, late: int = 0) -> None:
        self.asked: list[tuple[float, int]] = []
        self._last = last
        self._late = late

    def __call__(self, *_: object) -> "ScriptedRobots":
        return self

    def __enter__(self) -> "ScriptedRobots":
        return self

    def __exit__(self, *_: object) -> None: ...

    def run(self, lines: Iterable[bytes]) -> Iterator[bytes]:
        asked = [line for line in lines if line != READY]
        for work in [msgspec.json.decode(line, type=RobotWork) for line in asked]:
            for seed in range(work.first_seed, work.first_seed + work.episodes):
                if len(self.asked) == self._last:
                    raise StageFailed("A worker was killed by SIGKILL.")
                self.asked.append((work.delay_ms, seed - FIRST))
                episode = driven_episode(
                    delay_ms=work.delay_ms, task=work.task, seed=seed, late=self._late
                )
                yield msgspec.json.encode(episode)


class ScriptedServer:
    port = 1

    def __init__(self, *_: object, **__: object) -> None: ...

    def wait_until_ready(self) -> stage.ServedCheckpoint:
        return stage.ServedCheckpoint(**SERVED, serving_mode="shared")

    def __enter__(self) -> "ScriptedServer":
        return self

    def __exit__(self, *_: object) -> None: ...


def test_only_missing_episodes_are_run_after_an_interruption(weak, tmp_path, monkeypatch):
    weights = copy_of_weights(weak, tmp_path / "weights")
    request = ProfileRequest(checkpoint=str(weights), tasks=("push",), episodes=4, delays=(0, 50))
    first, second = ScriptedRobots(last=6), ScriptedRobots()
    monkeypatch.setattr(stage, "PolicyServer", ScriptedServer)
    monkeypatch.setattr(stage, "Pool", first)
    with pytest.raises(StageFailed):
        run_stage(request, tmp_path / "out")
    assert not (weights / ENVELOPE_FILE).exists()
    with (tmp_path / "out/episodes.jsonl").open("ab") as journal:
        journal.write(b'{"delay_ms": 50.0, "ta')
    monkeypatch.setattr(stage, "Pool", second)
    updates = []
    record = run_stage(request, tmp_path / "out", updates.append)
    assert first.asked == [(0, 0), (0, 1), (0, 2), (0, 3), (50, 0), (50, 1)]
    assert second.asked == [(50, 2), (50, 3)]
    assert updates[-1] == (8, 8, "episodes", "at 50 ms 4 of 4 succeeded", False)
    assert [cell.success.successes for cell in record.cells] == [4, 4]


def test_weights_that_change_meanwhile_end_it(weak, tmp_path, monkeypatch):
    weights = copy_of_weights(weak, tmp_path / "weights")
    request = ProfileRequest(checkpoint=str(weights), tasks=("push",), episodes=2)
    monkeypatch.setattr(stage, "PolicyServer", ScriptedServer)
    monkeypatch.setattr(stage, "Pool", ScriptedRobots())

    def change(update) -> None:
        if update.done:
            (weights / "other.json").write_bytes(b"{}")

    with pytest.raises(StageFailed, match="its content has changed"):
        run_stage(request, tmp_path / "out", change)
    assert (tmp_path / "out/episodes.jsonl").read_bytes().count(b"\n") == 1


def test_of_a_busy_machine_nothing_is_kept(weak, tmp_path, monkeypatch):
    weights = copy_of_weights(weak, tmp_path / "weights")
    request = ProfileRequest(checkpoint=str(weights), tasks=("push",), episodes=2, delays=(0,))
    monkeypatch.setattr(stage, "PolicyServer", ScriptedServer)
    monkeypatch.setattr(stage, "Pool", ScriptedRobots(late=30))
    record = run_stage(request, tmp_path / "out")
    assert "too busy" in record.note
    assert not (weights / ENVELOPE_FILE).exists()
