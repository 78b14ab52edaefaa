"""Shared artifacts, made once: a small dataset, a half-trained checkpoint, tiny policies."""

import fcntl
import os
import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from subprocess import TimeoutExpired
from types import SimpleNamespace
from typing import TYPE_CHECKING

import pytest

from lefleet import CompareRequest, EvaluateRequest, ExpertDemos, TrainRequest, run_stage
from lefleet.process import child_environment
from lefleet.stages.lerobot_train import training_environment
from tests.zygote import Zygote

if TYPE_CHECKING:
    from lefleet.policy import ServedPolicy
    from tests.gates import Stages
    from tests.postgres import PostgresServer

TASKS = ("push", "pick-place", "door-open")
SLOWEST = (
    "dash/browser/test_questions.py",
    "loop",
    "stages",
    # It needs the runs that the first file makes: now they are there.
    "dash/browser",
    "docs/test_security_page.py",
    "cli/test_serve.py",
    "server",
    "edge",
    "plugin",
)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The slowest files come first: a worker that gets one of them last would leave the other one
    idle. A worker takes whole files (--dist loadfile), so that what a file shares is made once."""
    here = Path(__file__).parent

    def rank(item: pytest.Item) -> int:
        file = item.path.relative_to(here)
        return next((n for n, slow in enumerate(SLOWEST) if file.is_relative_to(slow)), 99)

    items.sort(key=rank)


@pytest.fixture(scope="session", autouse=True)
def cheap_children() -> None:
    """See tests/children/sitecustomize.py, and tests/zygote.py."""
    os.sched_getaffinity = lambda _: {0}
    inherited = os.environ.get("PYTHONPATH", "")
    folder = str(Path(__file__).parent / "children")
    os.environ["PYTHONPATH"] = f"{folder}{os.pathsep}{inherited}" if inherited else folder
    # All programs then have the variables of a training, as in a run whose controller is forked.
    os.environ.update(training_environment("act"))
    names = {"Popen": Zygote(child_environment()).popen, "TimeoutExpired": TimeoutExpired}
    sys.modules["lefleet.process.launch"].subprocess = SimpleNamespace(**names)


@pytest.fixture
def any_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """For tests that start programs of their own, which no constitution lists."""
    from tests.permissive import VALUE, VARIABLE

    monkeypatch.setenv(VARIABLE, VALUE)


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Path:
    """A folder that all test workers of this session see."""
    base = tmp_path_factory.getbasetemp()
    folder = (base if worker_id == "master" else base.parent) / "shared"
    folder.mkdir(exist_ok=True)
    return folder


@pytest.fixture(scope="session")
def once(shared: Path) -> Callable:
    """Runs a stage in the shared folder: the first worker does the work, others wait for it."""

    def run(request, name: str) -> Path:
        with _alone(shared / f"{name}.once"):
            run_stage(request, shared / name)
        return shared / name

    return run


@pytest.fixture(scope="session")
def filled_once(shared: Path) -> Callable[[str, Callable[[Path], None]], Path]:
    """A folder of the shared folder: the first worker fills it, others wait for it."""

    def filled(name: str, fill: Callable[[Path], None]) -> Path:
        folder, done = shared / name, shared / f"{name}.filled"
        with _alone(shared / f"{name}.once"):
            if not done.exists():
                # Another worker may have failed on the way.
                shutil.rmtree(folder, ignore_errors=True)
                folder.mkdir()
                fill(folder)
                done.touch()
        return folder

    return filled


@contextmanager
def _alone(file: Path) -> Iterator[None]:
    """One worker at a time."""
    with file.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    """A real server, started when the first test asks for it."""
    from tests.postgres import PostgresServer

    server = PostgresServer()
    yield server
    server.close()


@pytest.fixture
def database(postgres_server: "PostgresServer") -> Iterator[str]:
    """URL of a database for one test, ready for a ledger."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def workdir(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A work folder without a run, whose ledger is a file or on a server."""
    from lefleet.ledger import open_ledger

    url = request.getfixturevalue("database") if request.param == "postgres" else ""
    open_ledger(tmp_path, url).close()
    return tmp_path


@pytest.fixture(scope="session")
def demos(once: Callable) -> Path:
    """Five demonstrations of each easy task."""
    return once(ExpertDemos(tasks=TASKS, episodes_per_task=5), "demos")


@pytest.fixture(scope="session")
def checkpoint(once: Callable, demos: Path) -> Path:
    """A policy that succeeds sometimes: good enough to be right, bad enough to fail."""
    return once(TrainRequest(dataset=str(demos), tasks=TASKS, steps=600), "checkpoint")


@pytest.fixture(scope="session")
def weak(once: Callable, demos: Path) -> Path:
    """A policy that is hardly trained: it succeeds seldom."""
    return once(TrainRequest(dataset=str(demos), tasks=TASKS, steps=20), "weak")


@pytest.fixture(scope="session")
def comparison(once: Callable, checkpoint: Path, weak: Path) -> Path:
    """Both compared: the first one is better."""
    return once(_compared(checkpoint, weak, 60), "comparison")


@pytest.fixture(scope="session")
def undecided(once: Callable, checkpoint: Path, weak: Path) -> Path:
    """Both compared in pairs that are too few for a verdict, whatever they show."""
    return once(_compared(checkpoint, weak, 4), "undecided")


def _compared(checkpoint: Path, weak: Path, pairs: int) -> CompareRequest:
    return CompareRequest(
        checkpoint=str(checkpoint),
        baseline=str(weak),
        tasks=TASKS,
        max_pairs=pairs,
        min_effect=0.3,
    )


@pytest.fixture(scope="session")
def stages_of_two_cycles(
    once: Callable, demos: Path, checkpoint: Path, weak: Path, comparison: Path
) -> "Stages":
    """What a run of two cycles consists of, with a film of each task."""
    from tests.gates import Stages

    def filmed(name: str, of: Path) -> Path:
        asked = EvaluateRequest(
            checkpoint=str(of), tasks=TASKS, episodes_per_task=1, videos_per_task=1
        )
        return once(asked, f"filmed-{name}")

    evaluated = filmed("weak", weak), filmed("checkpoint", checkpoint)
    return Stages(demos, (weak, checkpoint), evaluated, comparison)


@pytest.fixture(scope="session")
def checkpoint_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """The folder of a checkpoint of `tiny`, by its builder's name; tests do not change it."""
    from tests.policy import tiny

    @cache
    def made(name: str) -> Path:
        return getattr(tiny, name)(tmp_path_factory.mktemp(name))

    return made


@pytest.fixture(scope="session")
def policy_of(checkpoint_of: Callable[[str], Path]) -> "Callable[[str], ServedPolicy]":
    """The same, loaded."""
    from lefleet.policy import load_policy
    from tests.policy import tiny

    @cache
    def loaded(name: str) -> "ServedPolicy":
        return load_policy(tiny.model(checkpoint_of(name)))

    return loaded
