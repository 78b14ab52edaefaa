"""What goes wrong inside a stage: what the user sees, and what the run does."""

from lefleet.ledger import open_ledger
from tests.loop.test_end_to_end import ONE_STAGE, config_file, run

CRASH = """
import os, sys
if "lefleet.rollouts.worker" in sys.orig_argv:
    from lefleet.sim.world import World
    reset = World.reset
    def crash(self, seed):
        if seed == 1 and os.path.exists({switch!r}):
            raise FloatingPointError("the simulation is unstable")
        return reset(self, seed)
    World.reset = crash
"""

HANG = """
import os, sys, time
if "stage" in sys.orig_argv and "collect" in sys.orig_argv[-1] and os.path.exists({switch!r}):
    os.unlink({switch!r})
    time.sleep(300)
"""

KILLED_WORKERS = """
import os, sys
if "stage" in sys.orig_argv and "collect" in sys.orig_argv[-1]:
    from lefleet.process.pool import Pool
    from lefleet.rollouts.messages import BEGUN
    run = Pool.run
    def run_and_kill(self, work):
        answers = run(self, work)
        for answer in answers:
            yield answer
            if answer != BEGUN:
                break
        with open({switch!r}, "r+") as kills:
            if len(kills.read()) < 2:
                kills.write("x")
                for worker in self._workers:
                    worker.kill()
        yield from answers
    Pool.run = run_and_kill
"""


def test_workers_killed_twice_end_no_run_that_makes_progress(tmp_path, plant):
    workdir = tmp_path / "runs"
    growing = {"source": "expert", "episodes_per_task": [6]}
    one_stage = {"cycles": 1, "collected_episodes": 6}
    config = config_file(tmp_path, collect=growing, budgets=one_stage, max_attempts=1)
    plant(KILLED_WORKERS)
    finished = run("run", "-c", config, "--workdir", workdir)
    assert finished.returncode == 0, finished.stderr
    assert attempts(workdir) == [("collect", "killed")] * 2 + [("collect", "committed")]
    rows = open_ledger(workdir).attempts("tiny")[:2]
    amounts = [0, *(one.recorded for one in rows)]
    assert amounts == sorted(set(amounts)), "every attempt recorded something new"
    words = {one.error.partition(" Its log is ")[0] for one in rows}
    assert words <= {"A worker was killed by SIGKILL.", OUT_OF_MEMORY}


OUT_OF_MEMORY = "A worker was killed by SIGKILL (out of memory?)."


def attempts(workdir):
    rows = open_ledger(workdir).attempts("tiny")
    return [(one.stage, one.state) for one in rows]


def test_a_diverging_training_is_ended_early_and_the_remedy_named(tmp_path):
    hopeless = {"extra_args": ["--optimizer.lr=1e30"], "steps": 100_000}
    workdir, config = tmp_path / "runs", config_file(tmp_path, rung=hopeless, max_attempts=1)
    failed = run("run", "-c", config, "--workdir", workdir)
    assert failed.returncode == 1
    assert "train of cycle 0: Training diverged" in failed.stderr
    assert "Lower learning_rate" in failed.stderr
    assert "lefleet resume tiny" in failed.stderr
    assert attempts(workdir) == [("collect", "committed"), ("train", "failed")]
    assert open_ledger(workdir).run("tiny").state == "failed"


def test_an_episode_that_crashes_is_named_and_the_run_can_be_resumed(tmp_path, plant):
    workdir = tmp_path / "runs"
    three = {"source": "expert", "episodes_per_task": [3]}
    config = config_file(tmp_path, collect=three, max_attempts=1, **ONE_STAGE)
    switch = plant(CRASH)
    failed = run("run", "-c", config, "--workdir", workdir)
    assert failed.returncode == 1
    assert "collect of cycle 0" in failed.stderr
    assert "push with seed 1 crashed, FloatingPointError" in failed.stderr
    assert attempts(workdir) == [("collect", "failed")]
    switch.unlink()
    resumed = run("resume", "tiny", "--workdir", workdir)
    assert resumed.returncode == 0, resumed.stderr
    assert open_ledger(workdir).run("tiny").state == "finished"
    assert attempts(workdir) == [("collect", "failed"), ("collect", "committed")]


def test_a_stage_that_hangs_is_ended_and_started_again(tmp_path, plant):
    workdir, config = tmp_path / "runs", config_file(tmp_path, hang_after_s=15.0, **ONE_STAGE)
    plant(HANG)
    finished = run("run", "-c", config, "--workdir", workdir)
    assert finished.returncode == 0, finished.stderr
    assert "collect failed: no activity for 15 s" in finished.stderr
    assert attempts(workdir)[:2] == [("collect", "failed"), ("collect", "committed")]
