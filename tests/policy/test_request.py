"""A request that the policy cannot be asked is refused, and the field is named."""

import numpy as np
import pytest

from lefleet.policy import BadRequest, PolicyRequest
from lefleet.policy.request import RequestRules

STATE = "observation.state"
TOP = "observation.images.top"
RULES = RequestRules(
    vector_sizes={STATE: 2},
    cameras=frozenset({TOP}),
    action_size=3,
    n_obs_steps=2,
    chunk_size=4,
    takes_prefix=True,
)


def frame(**changes) -> dict:
    values = {STATE: np.zeros(2, np.float32), TOP: np.zeros((4, 6, 3), np.uint8)}
    return {key: value for key, value in (values | changes).items() if value is not None}


def request(*frames: dict, **changes) -> PolicyRequest:
    return PolicyRequest(frames=frames or (frame(),), task="", robot_type="", seed=0, **changes)


def rows(count: int, width: int = 3, kind: type = np.float32) -> np.ndarray:
    return np.zeros((count, width), kind)


@pytest.mark.parametrize(
    "good",
    [
        request(),
        request(frame(), frame()),
        request(frame(**{TOP: np.zeros((400, 300, 3), np.uint8)})),
        request(prefix_model=rows(4), prefix_robot=rows(4), inference_delay_steps=9),
    ],
)
def test_what_fits_is_accepted(good):
    RULES.require(good)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (request(frame(), frame(), frame()), "frames: 3 observations, the policy looks at 2"),
        (PolicyRequest(frames=(), task="", robot_type="", seed=0), "frames: 0 observations"),
        (request(frame(**{STATE: None})), "observation.state: missing"),
        (request(frame(**{TOP: None}), frame()), r"images.top \(1 steps ago\): missing"),
        (request(frame(extra=np.zeros(2, np.float32))), "extra: the policy does not know it"),
        (request(frame(**{STATE: np.zeros(3, np.float32)})), r"state: float32 of shape \(2,\)"),
        (request(frame(**{STATE: np.zeros(2)})), "not float64"),
        (request(frame(**{STATE: np.float32([1, np.nan])})), "observation.state: holds NaN"),
        (request(frame(**{STATE: np.float32([1, np.inf])})), "observation.state: holds NaN"),
        (request(frame(**{TOP: np.zeros((4, 6, 3), np.float32)})), "images.top: a uint8 image"),
        (request(frame(**{TOP: np.zeros((4, 6, 4), np.uint8)})), "images.top: a uint8 image"),
        (request(frame(**{TOP: np.zeros((4, 6), np.uint8)})), "images.top: a uint8 image"),
        (request(inference_delay_steps=-1), "inference_delay_steps: -1 is below 0"),
        (request(prefix_model=rows(5)), "prefix_model: 5 steps, a chunk has 1 to 4"),
        (request(prefix_robot=rows(0)), "prefix_robot: 0 steps, a chunk has 1 to 4"),
        (request(prefix_model=rows(2, 2)), "prefix_model: float32 of shape"),
        (request(prefix_model=rows(2, 3, np.float64)), "prefix_model: float32 of shape"),
        (request(prefix_robot=rows(2) + np.float32("nan")), "prefix_robot: holds NaN"),
        (request(prefix_robot=np.float32(1)), "prefix_robot: 0 steps"),
    ],
)
def test_what_does_not_fit_is_named(bad, message):
    with pytest.raises(BadRequest, match=message):
        RULES.require(bad)


def test_a_policy_without_rtc_takes_no_prefix():
    plain = RequestRules(
        vector_sizes={}, cameras=frozenset(), action_size=3, n_obs_steps=1, chunk_size=4
    )
    with pytest.raises(BadRequest, match="prefix_model: this policy takes none"):
        plain.require(request({}, prefix_model=rows(2)))
