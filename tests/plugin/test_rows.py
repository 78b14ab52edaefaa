"""Batches become exactly what the server's contract names, or an error that says what is wrong."""

import numpy as np
import pytest
import torch
from lerobot.envs import preprocess_observation

from lefleet_client import wire
from lerobot_policy_lefleet.rows import WrongFeatures, first_task, frames_of, tasks_of

TOP = "observation.images.top"
STATE = "observation.state"
CONTRACT = wire.Contract(
    action_names=("a",),
    vectors={STATE: ("x", "y")},
    cameras={TOP: (16, 16, 3)},
    fps=10.0,
    policy_type="act",
    robot_type="",
)


def batch(**changes) -> dict:
    values = {STATE: torch.arange(4.0).reshape(2, 2), TOP: torch.zeros(2, 3, 16, 16)}
    return values | {key.replace("__", "."): value for key, value in changes.items()}


def test_images_are_the_bytes_that_they_were():
    """All 256 values, and channels, rows and columns in their places."""
    pixels = np.arange(2 * 16 * 16 * 3, dtype=np.uint8).reshape(2, 16, 16, 3)
    pixels[0, 0, 0] = (255, 128, 0)
    assert len(np.unique(pixels)) == 256
    seen = preprocess_observation({"pixels": {"top": pixels}, "agent_pos": np.zeros((2, 2))})
    frames = frames_of(seen, CONTRACT, {})
    assert all(frame[TOP].dtype == np.uint8 for frame in frames)
    assert np.array_equal(np.stack([frame[TOP] for frame in frames]), pixels)


def test_pixels_that_rounding_moved_a_little_are_bytes_again():
    expected = torch.arange(256)
    moved = (expected / 255).half().float().reshape(1, 1, 16, 16).expand(1, 3, 16, 16)
    (frame,) = frames_of({STATE: torch.zeros(1, 2), TOP: moved}, CONTRACT, {})
    assert frame[TOP][..., 0].ravel().tolist() == expected.tolist()


def test_images_of_bytes_stay_as_they_are():
    image = torch.randint(0, 256, (2, 3, 4, 5), dtype=torch.uint8)
    frames = frames_of(batch() | {TOP: image}, CONTRACT, {})
    assert np.array_equal(frames[1][TOP], image[1].permute(1, 2, 0).numpy())


def test_vectors_are_float32_rows_and_nothing_else_is_sent():
    values = torch.arange(4, dtype=torch.float64).reshape(2, 2)
    first, second = frames_of(
        batch(observation__extra=torch.zeros(2, 9)) | {STATE: values}, CONTRACT, {}
    )
    assert first.keys() == {STATE, TOP}
    assert first[STATE].dtype == np.float32
    assert first[STATE].tolist() == [0, 1]
    assert second[STATE].tolist() == [2, 3]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({STATE: None}, r"observation.state: .* needs it.*only .*images.top.*rename_map"),
        ({STATE: torch.zeros(2, 3)}, r"observation.state: \(2, 3\) is observed.*\(rows, 2\)"),
        ({STATE: torch.zeros(2)}, r"observation.state: \(2,\) is observed"),
        ({STATE: torch.zeros(3, 2)}, "different number of rows"),
        ({TOP: torch.zeros(2, 16, 16, 3)}, r"images.top: \(2, 16, 16, 3\) is observed"),
        ({TOP: torch.full((2, 3, 16, 16), 1.5)}, "images.top: pixels as floats are 0 to 1"),
        ({TOP: torch.full((2, 3, 16, 16), torch.nan)}, "images.top: pixels as floats are 0 to 1"),
    ],
)
def test_what_does_not_fit_is_named(changes, message):
    with pytest.raises(WrongFeatures, match=message):
        frames_of({**batch(), **changes}, CONTRACT, {})


@pytest.mark.parametrize(
    ("task", "expected"), [("a", ("a", "a")), (["a", "b"], ("a", "b")), (None, ("", ""))]
)
def test_every_row_has_its_task(task, expected):
    given = {} if task is None else {"task": task}
    assert tasks_of(given, 2) == expected
    assert first_task(given) == expected[0]


def test_a_task_too_few_is_named():
    with pytest.raises(WrongFeatures, match="1 tasks for 2 rows"):
        tasks_of({"task": ["a"]}, 2)
