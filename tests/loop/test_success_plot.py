"""The picture of a run's success."""

import av
import numpy as np
import pytest
from matplotlib.image import imread

from lefleet.loop.success_plot import plot_success


def evaluated(index: int, decision: str | None, *tasks: str) -> dict:
    found = {task: {"success_rate": 0.5} for task in tasks}
    fixed = {"success_rate": 0.5, "interval": (0.25, 0.75), "demonstrations": 6}
    return {"index": index, "decision": decision, "tasks": found} | fixed


def film(path, frames: int) -> None:
    with av.open(path, "w") as container:
        stream = container.add_stream("mpeg4", rate=10)
        stream.width = stream.height = 32
        for _ in range(frames):
            picture = av.VideoFrame.from_ndarray(np.zeros((32, 32, 3), np.uint8))
            container.mux(stream.encode(picture))
        container.mux(stream.encode())


def width(path) -> int:
    return imread(path).shape[1]


def test_films_stand_beside_the_rates(tmp_path):
    film(tmp_path / "push_1.mp4", frames=2)
    cycles = [evaluated(0, "baseline", "push", "door"), evaluated(1, None, "push", "door")]
    plot_success(cycles, "r", [tmp_path / "push_1.mp4"], tmp_path / "with.png")
    plot_success(cycles, "r", [], tmp_path / "without.png")
    assert width(tmp_path / "with.png") > width(tmp_path / "without.png")


def test_a_film_that_cannot_be_read_is_left_out(tmp_path):
    (tmp_path / "broken_1.mp4").write_bytes(b"no film")
    films = [tmp_path / "broken_1.mp4", tmp_path / "missing_1.mp4"]
    plot_success([evaluated(0, "baseline", "push")], "r", films, tmp_path / "broken.png")
    plot_success([evaluated(0, "baseline", "push")], "r", [], tmp_path / "without.png")
    assert width(tmp_path / "broken.png") == width(tmp_path / "without.png")


@pytest.mark.parametrize("tasks", [(), ("one",), tuple(f"task {n}" for n in range(50))])
def test_any_number_of_cycles_and_tasks_can_be_drawn(tmp_path, tasks):
    cycles = [evaluated(index, "iterate", *tasks) for index in range(30)]
    plot_success(cycles, "r", [], tmp_path / "success.png")
    assert (tmp_path / "success.png").stat().st_size > 1000
