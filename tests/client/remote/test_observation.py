"""A robot's features are checked, and its arrays arrive as they were or are refused."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from lefleet_client import wire
from lefleet_client.remote import BadObservation, RobotFeatures
from lefleet_client.remote.observation import ObservationReader, ObservationRequest

KEYS = st.text(min_size=1, max_size=20)
NUMBERS = npst.arrays(
    st.sampled_from([np.float16, np.float32, np.int64, np.uint8, np.bool_]), st.integers(1, 9)
)
IMAGES = npst.arrays(np.uint8, st.tuples(st.integers(1, 9), st.integers(1, 9), st.just(3)))
ANYTHING = npst.arrays(
    st.sampled_from([np.float32, np.uint8, np.complex64, "U3"]),
    npst.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4),
)


def encoded(observation, quality: int) -> bytes:
    """As a policy encodes it that takes every one of these keys."""
    contract = wire.Contract(
        action_names=("a",),
        vectors={key: ("a",) for key, value in observation.items() if value.ndim != 3},
        cameras={key: (8, 8, 3) for key, value in observation.items() if value.ndim == 3},
        fps=30.0,
        policy_type="act",
        robot_type="arm",
    )
    frame = ObservationReader(contract, None, {}).frame(observation)
    return ObservationRequest(frame, (), {}).encode(quality)


@given(st.dictionaries(KEYS, NUMBERS | IMAGES, max_size=5))
def test_what_is_sent_arrives(observation):
    body = wire.OBSERVATION.decode(encoded(observation, quality=0))
    arrived = {
        **{key: wire.decode_tensor(tensor) for key, tensor in body.vectors.items()},
        **{key: wire.decode_image(image) for key, image in body.images.items()},
    }
    assert arrived.keys() == observation.keys()
    for key, value in observation.items():
        np.testing.assert_array_equal(arrived[key], value.astype(arrived[key].dtype))
        assert arrived[key].dtype == (np.uint8 if value.ndim == 3 else np.float32)


@given(st.dictionaries(st.text(max_size=300), ANYTHING, max_size=3))
def test_what_cannot_be_sent_is_a_typed_error(observation):
    try:
        body = encoded(observation, quality=90)
    except BadObservation:
        return
    assert wire.OBSERVATION.decode(body)


def features(**changes):
    fitting = {
        "action_names": ("a",),
        "vectors": {"observation.state": ("a",)},
        "cameras": {"observation.images.top": (240, 320, 3)},
        "fps": 30.0,
        "robot_type": "arm",
    }
    return RobotFeatures(**fitting | changes)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"fps": 0}, "fps: 0 is not above 0"),
        ({"fps": float("nan")}, "fps"),
        ({"cameras": {"top": (3, 240, 320)}}, "cameras: top .* height, width and 3"),
        ({"cameras": {"top": (240, 320)}}, "cameras: top"),
        ({"cameras": {"top": (0, 320, 3)}}, "cameras: top"),
    ],
)
def test_what_cannot_be_is_named(changes, words):
    assert features()
    with pytest.raises(ValueError, match=words):
        features(**changes)
