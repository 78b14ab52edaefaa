"""A film repeats an episode exactly, and has its name only when it is complete."""

import msgspec
import numpy as np
import pytest

from lefleet.robots import LeFleetSim, LeFleetSimConfig
from lefleet.sim.encode import ACTION_NAMES, FPS
from lefleet.sim.render import NoGraphics
from lefleet.trial import film
from lefleet.trial.messages import FilmWork, SentCommand

SEED = 100_000_000


def driven(task: str, seed: int) -> tuple[FilmWork, tuple, np.ndarray]:
    """An episode in wall-clock time with a late and a hasty control loop; how it ended."""
    random, now = np.random.default_rng(seed), [0.0]
    robot = LeFleetSim(LeFleetSimConfig(task=task, seed=seed), clock=lambda: now[0])
    commands: list[SentCommand] = []
    robot.on_command = lambda action, _: commands.append(
        SentCommand(robot.extras.steps, tuple(action.values()))
    )
    robot.connect()
    for _ in range(40):
        robot.get_observation()
        robot.send_action(dict(zip(ACTION_NAMES, random.uniform(-1, 1, 4), strict=True)))
        now[0] += random.uniform(0.2, 2.5) / FPS
    robot.get_observation()
    end, raw = robot.extras, robot.state.raw
    robot.disconnect()
    work = FilmWork(path="", task=task, seed=seed, steps=end.steps, commands=tuple(commands))
    return msgspec.json.decode(msgspec.json.encode(work), type=FilmWork), end[2:], raw


def test_the_same_commands_make_the_same_episode():
    for seed in (SEED, SEED + 1, SEED):
        work, end, raw = driven("push", seed)
        scene = film.scene_of("push")
        scene.start(work.seed)
        repeated = list(film.repeat(work, scene))
        assert len(repeated) == work.steps > 20
        assert repeated[-1][2:] == end
        assert (scene.raw == raw).all()


def test_a_film_that_is_not_complete_does_not_have_its_name(tmp_path, monkeypatch):
    work = msgspec.structs.replace(driven("push", SEED)[0], path=str(tmp_path / "a.mp4"))

    def fail(self, path):
        path.write_bytes(b"half")
        raise OSError("the disk is full")

    monkeypatch.setattr(film.Film, "write", fail)
    with pytest.raises(OSError, match="disk is full"):
        film.film(work, film.scene_of("push"))
    assert not (tmp_path / "a.mp4").exists()


def test_without_graphics_there_is_a_reason_instead_of_a_film(tmp_path, monkeypatch):
    def no_renderer(*_):
        raise NoGraphics("There is no OpenGL library.", "Install one.")

    monkeypatch.setattr("lefleet.trial.film.Renderer", no_renderer)
    work = msgspec.structs.replace(driven("push", SEED)[0], path=str(tmp_path / "a.mp4"))
    filmed = film.film(work, film.scene_of("push"))
    assert filmed.problem == "There is no OpenGL library. Install one."
    assert list(tmp_path.iterdir()) == []
