"""Which cameras of the simulation data and policies have, and what is refused."""

import json
from threading import Event

import pytest

from lefleet import BadInput, CompareRequest, ExpertDemos
from lefleet.records import ExpertGrowth
from lefleet.records.border import encode, validated
from lefleet.records.checkpoint import CheckpointContract
from lefleet.sim.render import DEFAULT_IMAGE, LARGEST_IMAGE, ImageSize
from lefleet.stages import cameras
from lefleet.stages.cameras import (
    GraphicsReport,
    asked_cameras,
    camera_features,
    rendered_cameras,
    require_own_cameras,
    require_rendering,
)
from lefleet.stages.compare import _batches as compare_batches
from lefleet.stages.compare import _gate_rule
from lefleet.stages.contract import require_simulable
from lefleet.stages.films import _batches as film_batches
from lefleet.stages.films import requested
from lefleet.stages.references import CheckpointReference
from lefleet.stages.verdict import PairedEpisodes, gate_order

SMALLEST_RECORDED = 32
CORNER = {"corner": ImageSize(96, 96)}


def test_every_camera_that_is_asked_for_has_the_same_size():
    asked = ExpertDemos(cameras=("corner", "top"), image_size=64)
    assert asked_cameras(asked) == dict.fromkeys(("corner", "top"), ImageSize(64, 64))
    assert asked_cameras(ExpertDemos()) == {}


@pytest.mark.parametrize("kind", [ExpertDemos, ExpertGrowth])
def test_requests_and_configs_have_the_sizes_of_the_simulation(kind):
    assert kind().image_size == DEFAULT_IMAGE
    for size in (SMALLEST_RECORDED, LARGEST_IMAGE):
        validated(kind(cameras=("corner",), image_size=size))
    for size in (SMALLEST_RECORDED - 1, LARGEST_IMAGE + 1):
        with pytest.raises(BadInput, match="image_size: Expected"):
            validated(kind(cameras=("corner",), image_size=size))


@pytest.mark.parametrize(
    ("fields", "env", "problem"),
    [
        ({"cameras": ("wrist",)}, {}, "there is no 'wrist'. Choose from: corner, gripper, behind"),
        ({"cameras": ("top", "top")}, {}, "collect.cameras: named twice"),
        ({"cameras": ("top",)}, {"type": "pusht"}, "the episodes run in pusht"),
        ({"image_size": 64}, {}, "collect.image_size: there are no cameras"),
    ],
)
def test_what_the_simulation_cannot_show_is_refused(fields, env, problem):
    with pytest.raises(BadInput, match=problem):
        require_own_cameras(ExpertGrowth(**fields), env, "collect.")


def checkpoint(folder, inputs, trained=None, rename_map=None) -> CheckpointReference:
    features = {key: {"type": "VISUAL", "shape": shape} for key, shape in inputs.items()}
    config = {"input_features": features, "output_features": {}}
    (folder / "config.json").write_text(json.dumps(config))
    if trained is not None:
        contract = CheckpointContract(
            action_names=(),
            vectors={},
            cameras=trained,
            fps=80,
            policy_type="act",
            robot_type="",
            tasks=(),
            dataset_digest="",
        )
        (folder / "lefleet.json").write_bytes(encode(contract))
    if rename_map:
        step = {"registry_name": "rename_observations_processor"}
        steps = {"steps": [step | {"config": {"rename_map": rename_map}}]}
        (folder / "policy_preprocessor.json").write_text(json.dumps(steps))
    return CheckpointReference(str(folder), "digest")


def test_a_checkpoint_of_anybody_says_what_it_sees(tmp_path):
    found = checkpoint(tmp_path, {"observation.images.corner": [3, 48, 64]})
    assert rendered_cameras(found.path, {}) == {"corner": ImageSize(height=48, width=64)}
    assert rendered_cameras(found.path, {"type": "pusht"}) == {}


def test_a_policy_with_names_of_its_own_gets_the_cameras_of_its_data(tmp_path):
    """Renamed, and resized by the policy: the contract has what was trained on."""
    corner, camera = "observation.images.corner", "observation.images.camera1"
    inputs = {camera: [3, 256, 256]}
    found = checkpoint(tmp_path, inputs, {corner: (96, 96, 3)}, {corner: camera})
    assert require_simulable(found, "checkpoint") == CORNER
    (tmp_path / "policy_preprocessor.json").unlink()
    with pytest.raises(BadInput, match="camera1 has shape"):
        require_simulable(found, "checkpoint")


def test_cameras_lie_in_a_dataset_as_videos():
    (feature,) = camera_features({"corner": ImageSize(height=48, width=64)}).items()
    names = ["height", "width", "channels"]
    assert feature == (
        "observation.images.corner",
        {"dtype": "video", "shape": (48, 64, 3), "names": names},
    )


def test_without_opengl_the_package_to_install_is_named(monkeypatch):
    monkeypatch.setattr(cameras, "_has_rendered", Event())
    require_rendering({}, "cameras")
    found = GraphicsReport(problem="There is no OpenGL library that renders off screen.")
    monkeypatch.setattr(cameras, "ask", lambda *_: found)
    with pytest.raises(BadInput, match=r"cameras: images of corner .* apt-get install libegl1"):
        require_rendering(CORNER, "cameras")
    # Once it is installed, the next try succeeds, and no other is needed.
    monkeypatch.setattr(cameras, "ask", lambda *_: GraphicsReport())
    require_rendering(CORNER, "cameras")
    monkeypatch.setattr(cameras, "ask", lambda *_: found)
    require_rendering(CORNER, "cameras")


def test_each_policy_of_a_gate_sees_what_it_was_trained_with(tmp_path):
    """Also in the films of its pairs."""
    shapes = {"candidate": [3, 32, 32], "baseline": [3, 48, 64]}
    roles = {}
    for role, shape in shapes.items():
        (tmp_path / role).mkdir()
        roles[role] = checkpoint(tmp_path / role, {"observation.images.top": shape}).path
    request = CompareRequest(checkpoint="c", baseline="b", tasks=("push",), max_pairs=1)
    order = gate_order(request, ("push",))
    nothing_yet = PairedEpisodes(order, _gate_rule(request, 1), request.scope)
    judged = {one.label: one.cameras for one in compare_batches(request, order, roles, nothing_yet)}
    film = requested(order[0], "me")
    filmed = {
        role: one.cameras
        for role in roles
        for one in film_batches(request, tmp_path, {order[0]: film}, role, roles)
    }
    sizes = {"candidate": ImageSize(32, 32), "baseline": ImageSize(48, 64)}
    assert judged == filmed == {role: {"top": size} for role, size in sizes.items()}
