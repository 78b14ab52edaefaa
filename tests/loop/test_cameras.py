"""A whole run whose policies see: demonstrations as videos, a training, an evaluation, and a gate
and films of its checkpoint."""

import json
from pathlib import Path

import av
import msgspec
import pytest
import yaml

from lefleet import CompareRequest, run_stage
from lefleet.records import Budgets, DatasetRecord, EvaluatePlan, ExpertGrowth, Rung
from lefleet.records.fields import SeedBlock
from lefleet.sim.render import graphics_problem
from lefleet.stages.folder import read_record
from tests.loop.fuzz import tiny_config
from tests.loop.test_end_to_end import run
from tests.samples import TINY_ACT

pytestmark = [
    pytest.mark.skipif(bool(graphics_problem()), reason="no images can be rendered here"),
    pytest.mark.slow,
]
SIZE = 32
TINY = {**TINY_ACT, "chunk_size": "50", "n_action_steps": "50"}
"""It looks once in 50 steps, so that hardly anything is rendered for it."""


@pytest.fixture(scope="module")
def workdir(tmp_path_factory) -> Path:
    """One cycle with one camera, by the real command."""
    folder = tmp_path_factory.mktemp("seen")
    config = msgspec.structs.replace(
        tiny_config("seen"),
        collect=ExpertGrowth(episodes_per_task=(1,), cameras=("gripper",), image_size=SIZE),
        ladder=(Rung(name="tiny", steps=2, batch_size=2, policy=TINY),),
        evaluate=EvaluatePlan(episodes_per_task=1, videos_per_task=1),
        budgets=Budgets(cycles=1),
    )
    file = folder / "config.yaml"
    file.write_text(yaml.safe_dump(json.loads(msgspec.json.encode(config))))
    done = run("run", "-c", file, "--workdir", folder / "runs")
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "runs" / "seen" / "cycle_0"


def frame_size(video: Path) -> tuple[int, int]:
    with av.open(str(video)) as content:
        frame = next(content.decode(video=0))
        return frame.height, frame.width


def test_a_run_collects_trains_and_evaluates_with_a_camera(workdir):
    data = read_record(workdir / "collect")
    assert isinstance(data, DatasetRecord)
    (video,) = (Path(data.root) / "videos" / "observation.images.gripper").rglob("*.mp4")
    assert frame_size(video) == (SIZE, SIZE)
    trained = read_record(workdir / "train")
    assert trained.contract.cameras == {"observation.images.gripper": (SIZE, SIZE, 3)}
    evaluated = read_record(workdir / "evaluate")
    assert evaluated.result.overall.episodes == 1
    (film,) = (workdir / "evaluate" / "videos").glob("*.mp4")
    assert frame_size(film) == (224, 448), "the scene, and beside it what the policy saw"


@pytest.mark.chaos
def test_a_gate_renders_what_its_checkpoints_see_and_films_it(workdir, tmp_path):
    trained = str(workdir / "train")
    request = CompareRequest(
        checkpoint=trained,
        baseline=trained,
        tasks=("push",),
        max_pairs=1,
        seed=int(SeedBlock.GATE),
        films=1,
        workers=1,
    )
    record = run_stage(request, tmp_path / "gate")
    assert record.gate.pairs == 1
    films = sorted((tmp_path / "gate" / "films").glob("push*.mp4"))
    assert [frame_size(film) for film in films] == [(224, 448)] * 2
    told = json.loads(next((tmp_path / "gate" / "films").glob("push*.json")).read_bytes())
    assert told["candidate"]["is_same"], "the same seed gave the same episode with the film on"
