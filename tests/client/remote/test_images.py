"""Images on their way: colours, sizes, and which codec carries them."""

import threading
from dataclasses import replace

import msgspec
import numpy as np
import pytest

from lefleet_client import wire
from lefleet_client.remote import BadObservation, RemoteError, RobotFeatures, exchange
from tests.client.remote.scripted import STATE, TOP, answer, capabilities, observation
from tests.client.transport.waiting import LONG_S

RED, BLUE = (230, 20, 20), (20, 20, 230)


def red_and_blue(height=24, width=32) -> dict[str, np.ndarray]:
    """Red on the left, blue on the right."""
    image = np.empty((height, width, 3), np.uint8)
    image[:, : width // 2], image[:, width // 2 :] = RED, BLUE
    return {STATE: np.zeros(3, np.float32), TOP: image}


def images_of(server) -> list[wire.Image]:
    return [one.body.images[TOP] for one in server.observations if not one.body.probe]


def probes_of(server) -> list[str]:
    return [one.body.images[TOP].codec for one in server.observations if one.body.probe]


@pytest.mark.parametrize("codec", ["raw", "jpeg"])
def test_red_stays_red_end_to_end(any_world, codec):
    server = any_world.server()
    any_world.robot(image_codec=codec).infer(red_and_blue())
    (image,) = images_of(server)
    pixels = wire.decode_image(image)
    assert image.codec == codec
    np.testing.assert_allclose(pixels[12, 4], RED, atol=12)
    np.testing.assert_allclose(pixels[12, 28], BLUE, atol=12)


@pytest.fixture
def patience(monkeypatch):
    """No probe counts as lost because the machine is busy."""
    monkeypatch.setattr(exchange, "PROBE_LOST_S", LONG_S)


def slow_jpeg(request) -> None:
    """Decoding JPEG takes long here."""
    if request.body.probe and request.body.images[TOP].codec == "jpeg":
        threading.Timer(0.1, request.probed).start()
    else:
        answer(request)


def test_both_codecs_are_tried_in_turn_and_the_winner_is_kept(any_world, patience):
    server = any_world.server()
    policy = any_world.robot()
    assert policy.image_codec == ""
    policy.infer(observation(image=True))
    policy.infer(observation(image=True))
    assert probes_of(server) == ["jpeg", "raw"] * exchange.PROBE_ROUNDS
    assert {image.codec for image in images_of(server)} == {policy.image_codec}


def test_raw_wins_where_jpeg_only_costs(any_world, patience):
    any_world.server(act=slow_jpeg)
    policy = any_world.robot()
    policy.infer(observation(image=True))
    assert policy.image_codec == "raw"


def test_jpeg_wins_where_raw_does_not_get_through(world):
    def lose_raw(request):
        if request.body.images[TOP].codec == "jpeg":
            answer(request)

    server = world.server(act=lose_raw)
    policy = world.robot()
    policy.infer(observation(image=True))
    assert policy.image_codec == "jpeg"
    assert probes_of(server).count("raw") == 2


def test_a_single_lost_probe_decides_nothing(world, monkeypatch):
    """The faster codec loses one."""
    monkeypatch.setattr(exchange, "PROBE_LOST_S", 0.5)

    def lose_first_raw(request):
        if probes_of(server).count("raw") != 1 or request.body.images[TOP].codec != "raw":
            slow_jpeg(request)

    server = world.server(act=lose_first_raw)
    policy = world.robot()
    policy.infer(observation(image=True))
    assert policy.image_codec == "raw"


def test_images_too_large_to_be_raw_are_jpegs(world, monkeypatch):
    small = wire.OBSERVATION.limits._replace(max_bytes=2000)
    monkeypatch.setattr(wire.OBSERVATION, "limits", small)
    world.server()
    policy = world.robot(jpeg_quality=10)
    policy.infer(red_and_blue())
    assert policy.image_codec == "jpeg"


def test_probes_leave_half_of_the_time_for_the_observation(world, patience):
    server = world.server(act=lambda request: None if request.body.probe else request.chunk())
    policy = world.robot(timeout_s=2.0)
    policy.infer(observation(image=True))
    assert (policy.image_codec, len(probes_of(server))) == ("jpeg", 1)


def test_a_server_that_answers_no_probes_gets_jpeg(world):
    world.server(act=lambda request: None if request.body.probe else request.chunk())
    policy = world.robot()
    policy.infer(observation(image=True))
    assert policy.image_codec == "jpeg"


@pytest.mark.parametrize(
    ("ours", "theirs", "used"),
    [("jpeg", "auto", "jpeg"), ("auto", "raw", "raw"), ("raw", "jpeg", "jpeg")],
)
def test_a_fixed_codec_needs_no_probe(world, ours, theirs, used):
    server = world.server(image_codec=theirs)
    policy = world.robot(image_codec=ours)
    policy.infer(observation(image=True))
    assert (policy.image_codec, probes_of(server)) == (used, [])


def test_without_images_nothing_is_probed(world):
    server = world.server()
    policy = world.robot()
    policy.infer(observation())
    assert (len(server.observations), policy.image_codec) == (1, "")


def test_raw_images_are_not_chosen_where_their_history_does_not_fit(world, patience, monkeypatch):
    """As with six cameras of 1080p: one frame would fit, two do not."""
    limits = wire.OBSERVATION.limits._replace(max_bytes=4000)
    monkeypatch.setattr(wire.OBSERVATION, "limits", limits)
    server = world.server(act=slow_jpeg)
    server.capabilities = msgspec.structs.replace(server.capabilities, n_obs_steps=2)
    policy = world.robot()
    policy.infer(red_and_blue())
    policy.infer(red_and_blue(), history=[red_and_blue()])
    assert policy.image_codec == "jpeg"


def test_another_server_is_probed_anew(world):
    first = world.server("a")
    policy = world.robot()
    policy.infer(observation(image=True))
    first.close()
    second = world.server("b", act=lambda request: None if request.body.probe else request.chunk())
    policy.infer(observation(image=True))
    assert len(probes_of(second)) > 0
    assert policy.image_codec == "jpeg"


def test_a_server_that_goes_while_it_is_probed_is_left(world):
    first = world.server("a", act=lambda request: first.close())
    policy = world.robot()
    world.server("b")
    assert policy.infer(observation(image=True)).server == "b"


@pytest.mark.parametrize(
    ("resize", "shape"),
    [(False, (48, 64, 3)), (True, (24, 32, 3)), ({TOP: (10, 20)}, (10, 20, 3)), ({}, (48, 64, 3))],
    ids=str,
)
def test_images_are_resized_only_where_that_is_asked_for(world, resize, shape):
    server = world.server()
    policy = world.robot(image_codec="raw", resize=resize)
    policy.infer(red_and_blue(48, 64), history=(red_and_blue(48, 64),))
    (request,) = server.observations
    for image in (request.body.images[TOP], request.body.history[0].images[TOP]):
        assert image.shape == shape
        pixels = wire.decode_image(image)
        np.testing.assert_array_equal(pixels[0, 0], RED)
        np.testing.assert_array_equal(pixels[-1, -1], BLUE)


@pytest.mark.parametrize(
    ("resize", "announced"),
    [(False, (48, 64, 3)), (True, (24, 32, 3)), ({TOP: (10, 20)}, (10, 20, 3))],
    ids=str,
)
def test_a_server_is_told_of_the_images_that_it_will_get(world, resize, announced):
    server = world.server()
    features = RobotFeatures.of(capabilities().contract)
    world.robot(robot=replace(features, cameras={TOP: (48, 64, 3)}), resize=resize)
    (asked,) = server.opens
    assert asked.cameras == {TOP: announced}


def test_images_of_a_size_that_nobody_announced_are_warned_of_once_per_session(world, caplog):
    world.server()
    policy = world.robot(image_codec="raw")
    for _ in range(3):
        policy.infer(red_and_blue(48, 64))
    (told,) = [one.getMessage() for one in caplog.records if TOP in one.getMessage()]
    assert told.startswith(f"{TOP}: images are 64 x 48, the policy was trained with 32 x 24")


@pytest.mark.parametrize("resize", [True, {TOP: (24, 32)}], ids=str)
def test_images_that_are_resized_to_those_of_training_need_no_warning(world, caplog, resize):
    world.server()
    world.robot(image_codec="raw", resize=resize).infer(red_and_blue(48, 64))
    assert TOP not in caplog.text


def test_resizing_without_opencv_fails_before_anything_moves(world, monkeypatch):
    server = world.server()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RemoteError, match="resize: OpenCV is needed"):
        world.robot(resize=True)
    assert server.opens == []


def test_a_size_without_pixels_is_refused(world):
    world.server()
    with pytest.raises(BadObservation, match=rf"^{TOP}: resize to \(0, 5\)"):
        world.robot(resize={TOP: (0, 5)}).infer(observation(image=True))


@pytest.mark.parametrize("quality", [0, 101])
def test_another_quality_is_refused(world, quality):
    with pytest.raises(ValueError, match="jpeg_quality"):
        world.robot(jpeg_quality=quality)


def test_the_quality_counts(world):
    server = world.server()
    noise = observation(image=True)
    for quality in (20, 95):
        world.robot(image_codec="jpeg", jpeg_quality=quality).infer(noise)
    poor, good = (image.data.nbytes for image in images_of(server))
    assert poor < good
