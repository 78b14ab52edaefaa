"""A whole run with a hook in every process: nothing is started but by `launch`, after its check."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import msgspec
import pytest

from lefleet.records import ImprovePlan, NotifyPlan
from tests.constitution.audit import Start, planted, starts
from tests.loop.fuzz import tiny_config
from tests.loop.test_end_to_end import config_of, wait_for

TRAINING = ("lefleet.compat.train", "lerobot.scripts.lerobot_train")
MAIN = ("-m", "lefleet")


def is_worker(start: Start) -> bool:
    """Whether a training, inside a stage that was launched, starts a process to load its data."""
    is_training = bool(start.stage) and start.by[2] in TRAINING
    return is_training and "multiprocessing" in start.stack[0]


def rogue(found: list[Start]) -> list[Start]:
    return [one for one in found if not one.is_checked and not is_worker(one)]


@pytest.mark.slow
def test_no_process_of_a_run_is_started_around_the_check(tmp_path):
    (tmp_path / "hook").mkdir()
    log, environment = planted(tmp_path / "hook")
    config = msgspec.structs.replace(
        tiny_config("tiny", cycles=2),
        improve=ImprovePlan(method="correct", episodes_per_task=1),
        notify=NotifyPlan(command=("true",)),
    )
    file = config_of(tmp_path, config)
    ran = subprocess.run(
        [sys.executable, *MAIN, "run", "-c", str(file), f"--workdir={tmp_path / 'runs'}"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    # Messages are sent by a process that outlives the run.
    wait_for(lambda: "true" in {one.program[0] for one in starts(log)}, "the command of notify")
    found = starts(log)
    assert rogue(found) == []
    launched = Counter(" ".join(one.program[1:3]) for one in found if one.is_checked)
    assert launched["-m lefleet.rollouts.worker"] >= 4
    assert launched["-m lefleet.compat.train"] == 2
    assert launched["-m lefleet"] >= 7, "a controller, its stages, and what sends messages"
    assert any(is_worker(one) for one in found), "the config has a training start one"


ROGUES = {
    "subprocess": "import subprocess; subprocess.run(['true'])",
    "shell": "import subprocess; subprocess.getoutput('true')",
    "system": "import os; os.system('true')",
    "popen": "import os; os.popen('true').close()",
    "posix_spawn": "import os; os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)",
    "spawn": "import os; os.spawnv(os.P_WAIT, '/bin/true', ['true'])",
    "fork": "import os\nif not os.fork(): os._exit(0)",
    "forkpty": "import os\nif not os.forkpty()[0]: os._exit(0)",
    "pty": "import pty; pty.spawn(['true'])",
    "exec": "import os\nos.execv('/bin/true', ['true'])",
    "multiprocessing fork": (
        "import multiprocessing as m; p = m.get_context('fork').Process(target=int); p.start()"
    ),
    "multiprocessing spawn": (
        "import multiprocessing as m; p = m.get_context('spawn').Process(target=int); p.start()"
    ),
    "raw": (
        "from multiprocessing.util import spawnv_passfds\n"
        "spawnv_passfds(b'/bin/true', [b'true'], ())"
    ),
    "after a checked one": (
        "import sys, subprocess; sys.audit('lefleet.launch', ('false',)); subprocess.run(['true'])"
    ),
}


@pytest.mark.parametrize("how", ROGUES)
def test_the_hook_notices_a_process_that_is_started_in_any_other_way(tmp_path, how):
    log, environment = planted(tmp_path)
    code = ROGUES[how]
    if "spawn'" in code:
        code = f"if __name__ == '__main__':\n    {code}"
    (tmp_path / "program.py").write_text(code)
    subprocess.run([sys.executable, str(tmp_path / "program.py")], env=environment, check=False)
    assert rogue(starts(log))


def test_a_rogue_start_planted_into_a_stage_is_noticed(tmp_path):
    """In a process that `launch` started: only data workers of a training are excepted there."""
    log, environment = planted(tmp_path, ROGUE_IN_WORKER)
    out = tmp_path / "out"
    command = ["collect", "expert", "--tasks", "push", "--episodes-per-task", "1", "--out", out]
    ran = subprocess.run(
        [sys.executable, *MAIN, *map(str, command)],
        env=environment,
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr
    found = starts(log)
    (planted_one,) = rogue(found)
    assert planted_one.program == ["true"]
    assert planted_one.by[2] == "lefleet.rollouts.worker"
    assert planted_one.stage == str(out)
    assert [one.is_checked for one in found].count(True) >= 2, "the stage and its worker"


ROGUE_IN_WORKER = """
if "lefleet.rollouts.worker" in sys.orig_argv:
    import subprocess
    subprocess.run(["true"])
"""


def test_the_hook_takes_a_launch_for_checked(tmp_path):
    log, environment = planted(tmp_path)
    code = (
        "import sys; from lefleet.process import launch\n"
        "launch((sys.executable, '-m', 'lefleet.trial.film')).wait()"
    )
    subprocess.run([sys.executable, "-c", code], env=environment, cwd=tmp_path, check=True)
    (one,) = starts(Path(log))
    assert one.is_checked
