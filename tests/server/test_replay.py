"""Captures of a real server, computed again: the same, or it is said what differs."""

from dataclasses import replace

import msgspec
import numpy as np
import pytest

from lefleet.errors import BadInput
from lefleet.server.capture import CapturedModel, CaptureRing, read_captures
from lefleet.server.manifest import CaptureSettings
from lefleet.server.replay import replay
from lefleet_client import wire
from tests.server.serving import Bench, manifest_of, observation

COUNT = 3


@pytest.fixture(scope="module")
def folder(checkpoint_of):
    return checkpoint_of("diffusion_history")


@pytest.fixture(scope="module")
def policy(policy_of):
    return policy_of("diffusion_history")


@pytest.fixture(scope="module")
def ring(folder, policy, tmp_path_factory):
    """What a robot asked: random answers of a policy with history and images."""
    path = tmp_path_factory.mktemp("captures")
    model = CapturedModel.of(manifest_of(folder))
    with (
        CaptureRing(CaptureSettings(dir=str(path)), model) as capture,
        Bench(folder, policy, {"capture": capture, "default_task": "reach"}) as bench,
        bench.robot("arm") as robot,
    ):
        seen = [observation(policy, seed) for seed in range(COUNT + 1)]
        for number in range(COUNT):
            robot.infer(seen[number + 1], history=[seen[number]])
    return path


def change(ring, target, **fields) -> None:
    """A copy of the ring whose first request is another one."""
    for number, (name, capture) in enumerate(read_captures(ring)):
        changed = capture
        if number == 0:
            changed = msgspec.structs.replace(
                capture, request=msgspec.structs.replace(capture.request, **fields)
            )
        (target / f"{name}.capture").write_bytes(msgspec.msgpack.encode(changed))


def serving(policy, **changes):
    """The policy with other capabilities."""
    return replace(policy, capabilities=msgspec.structs.replace(policy.capabilities, **changes))


def results(report) -> list[str]:
    return [one.result for one in report.requests]


def test_every_answer_comes_out_bit_for_bit(ring, policy):
    report = replay(ring, policy)
    assert results(report) == ["equal"] * COUNT
    assert report.is_same
    assert report.notes == ()
    assert [(one.client_id, one.max_difference) for one in report.requests] == [
        ("arm", 0.0)
    ] * COUNT


def test_a_camera_that_only_earlier_frames_have_was_accepted_by_the_server(ring, policy, tmp_path):
    _, capture = next(read_captures(ring))
    asked = wire.OBSERVATION.decode(capture.request.observation)
    unused = wire.encode_images({"observation.images.unused": np.zeros((8, 8, 3), np.uint8)}, 0)
    (earlier,) = asked.history
    earlier = msgspec.structs.replace(earlier, images={**earlier.images, **unused})
    asked = msgspec.structs.replace(asked, history=(earlier,))
    change(ring, tmp_path, observation=wire.OBSERVATION.encode(asked))
    assert results(replay(tmp_path, policy)) == ["equal"] * COUNT


def test_another_seed_is_another_answer(ring, policy, tmp_path):
    change(ring, tmp_path, seed=1)
    report = replay(tmp_path, policy)
    assert results(report) == ["different"] + ["equal"] * (COUNT - 1)
    assert not report.is_same
    assert report.requests[0].max_difference > 0


def _altered(ring, by: float) -> bytes:
    """The first answer, a little beside itself."""
    _, capture = next(read_captures(ring))
    chunk = wire.CHUNK.decode(capture.request.chunk)
    actions = np.array(wire.decode_tensor(chunk.chunk_robot))
    actions[0, 0] += by
    return wire.CHUNK.encode(
        msgspec.structs.replace(chunk, chunk_robot=wire.encode_tensor(actions))
    )


def test_on_the_same_device_the_last_bit_counts(ring, policy, tmp_path):
    change(ring, tmp_path, chunk=_altered(ring, 1e-4))
    report = replay(tmp_path, policy)
    assert report.requests[0].result == "different"
    assert report.requests[0].max_difference == pytest.approx(1e-4, rel=0.1)


@pytest.mark.parametrize(("by", "result"), [(1e-4, "close"), (0.5, "different")])
def test_between_devices_there_is_a_tolerance(ring, policy, tmp_path, by, result):
    change(ring, tmp_path, chunk=_altered(ring, by))
    elsewhere = replace(policy, processors=_Pretending(policy.processors, "cuda:1"))
    report = replay(tmp_path, elsewhere)
    assert report.requests[0].result == result
    assert any("tolerance" in note for note in report.notes)


class _Pretending:
    """Processors that claim to be on another device; there is only one here."""

    def __init__(self, processors, device: str) -> None:
        self.pipeline = processors.pipeline
        self.device = device


def test_another_checkpoint_is_named(ring, policy):
    report = replay(ring, serving(policy, digest="f" * 64))
    (note,) = report.notes
    assert note == f"Captured with the checkpoint {policy.digest[:12]}, computed with ffffffffffff."


def test_a_request_that_cannot_be_asked_any_more_is_a_result(ring, policy, tmp_path):
    change(ring, tmp_path, observation=wire.OBSERVATION.encode(wire.Observation()))
    report = replay(tmp_path, policy)
    assert results(report) == ["failed"] + ["equal"] * (COUNT - 1)
    assert "missing" in report.requests[0].reason


def test_a_policy_with_a_memory_is_reset_where_episodes_begin(ring, policy):
    report = replay(ring, serving(policy, serving_mode="exclusive"))
    assert results(report) == ["equal"] * COUNT
    assert any("keeps state" in note for note in report.notes)


def test_a_folder_that_is_none_is_bad_input(tmp_path, policy):
    with pytest.raises(BadInput, match="does not exist"):
        replay(tmp_path / "none", policy)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"header": b"\x00"}, "header"),
        ({"header": bytes(27)}, "version"),
        ({"chunk": b"\xc1"}, "chunk: "),
        ({"chunk": wire.STATUS_REQUEST.encode(wire.StatusRequest())}, "chunk: "),
    ],
)
def test_a_request_that_is_none_is_bad_input_with_the_name_of_its_file(
    ring, policy, tmp_path, fields, problem
):
    change(ring, tmp_path, **fields)
    with pytest.raises(BadInput, match=rf"0000000000\.capture: it is not a capture: .*{problem}"):
        replay(tmp_path, policy)
