"""Which rules a process has, what it hands to its children, and that `launch` asks them first."""

import json
import os
import subprocess
import sys

import msgspec
import pytest

from lefleet.constitution import Grants, Rules, active, given, install, installed, packaged
from lefleet.constitution.active import (
    FROZEN,
    RULES_VARIABLE,
    forget_handed_down,
    handed_down,
    reinstated,
)
from lefleet.errors import BadInput, Denied
from lefleet.process import launch
from tests.constitution.cases import constitution, rules
from tests.permissive import EVERYTHING

TELL = "from lefleet.constitution import given; r = given(); print(r.digest if r else 'none')"
PYTHON = {"python": {"positional": ["*"]}}
STRICT = rules(commands=PYTHON, plugins=["strict"])


@pytest.fixture(autouse=True)
def _clean(monkeypatch, tmp_path):
    """A process without rules of its own, in a folder without any."""
    monkeypatch.delenv(RULES_VARIABLE, raising=False)
    monkeypatch.chdir(tmp_path)
    with reinstated():
        yield


def said_by(code: str, **options) -> str:
    argv = (sys.executable, "-c", code)
    with launch(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, **options) as child:
        out, err = child.communicate(timeout=60)
    return (out or err).decode().strip().splitlines()[-1]


def encoded(rules_: Rules) -> str:
    with installed(rules_):
        return handed_down()[RULES_VARIABLE]


def test_without_any_the_rules_of_the_work_folder_count_and_then_the_shipped_ones(tmp_path):
    assert given() is None
    assert active() == Rules(constitution=packaged())
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "constitution.yaml").write_text("version: 1\nplugins: [mine]\n")
    assert active().constitution.plugins == ("mine",)


def test_a_program_that_the_rules_do_not_allow_is_not_started(tmp_path):
    touched = tmp_path / "touched"
    argv = (sys.executable, "-c", f"open({str(touched)!r}, 'w')")
    with pytest.raises(Denied, match="python is not an allowed program"):
        launch(argv)
    with installed(EVERYTHING):
        assert launch(argv).wait() == 0
    assert touched.exists()


def test_a_variable_that_the_rules_do_not_allow_is_not_set():
    install(STRICT)
    with pytest.raises(Denied, match="the environment variable PYTHONPATH"):
        said_by("", environment={"PYTHONPATH": "/evil"})


def test_a_variable_that_is_inherited_may_be_named_again(monkeypatch):
    monkeypatch.setenv("ANY", "same")
    install(STRICT)
    assert said_by("import os; print(os.environ['ANY'])", environment={"ANY": "same"}) == "same"
    with pytest.raises(Denied, match="variable ANY"):
        said_by("", environment={"ANY": "other"})


def test_a_child_has_the_rules_that_were_installed():
    install(STRICT)
    assert said_by(TELL) == STRICT.digest


def test_a_childs_children_have_them_too():
    install(STRICT)
    code = (
        "import subprocess, sys; from lefleet.process import launch\n"
        f"child = launch((sys.executable, '-c', {TELL!r}), stdout=subprocess.PIPE)\n"
        "print(child.communicate()[0].decode())"
    )
    assert said_by(code) == STRICT.digest


@pytest.mark.parametrize("how", ["environ", "argument"])
def test_neither_the_environment_nor_a_launch_can_loosen_the_rules_of_a_child(monkeypatch, how):
    install(STRICT)
    loose = {RULES_VARIABLE: encoded(EVERYTHING)}
    if how == "environ":
        monkeypatch.setenv(RULES_VARIABLE, loose[RULES_VARIABLE])
        assert said_by(TELL) == STRICT.digest
    else:
        assert said_by(TELL, environment=loose) == STRICT.digest


def test_a_child_that_inherits_nothing_gets_no_rules_that_it_could_pass_on():
    install(STRICT)
    path = os.pathsep.join(sys.path)
    with installed(rules(commands=PYTHON, variables=["PYTHONPATH"])):
        said = said_by(TELL, environment={"PYTHONPATH": path, RULES_VARIABLE: "x"}, inherits=False)
    assert said == "none"


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (lambda text: text.replace("strict", "looser"), "were changed"),
        (lambda text: "0" * 64 + text[64:], "were changed"),
        (lambda text: text[:-2], "cannot be read"),
        (lambda text: "nonsense", "cannot be read"),
        (lambda text: text.replace('"own_config"', '"unknown"'), "cannot be read"),
    ],
)
def test_rules_that_were_changed_on_the_way_are_denied(monkeypatch, change, why):
    monkeypatch.setenv(RULES_VARIABLE, change(encoded(STRICT)))
    with pytest.raises(Denied, match=why):
        active()
    with pytest.raises(Denied, match=why):
        launch((sys.executable, "-c", ""))


def test_a_typed_command_forgets_what_the_shell_says(monkeypatch):
    monkeypatch.setenv(RULES_VARIABLE, encoded(EVERYTHING))
    assert given() == EVERYTHING
    forget_handed_down()
    assert given() is None


def test_installed_rules_end_with_their_block_even_after_an_error():
    with pytest.raises(Denied), installed(STRICT):
        launch(("no-such-program",))
    assert given() is None


def test_a_folder_gets_a_copy_for_people(tmp_path):
    install(STRICT, tmp_path)
    copy = msgspec.json.decode((tmp_path / FROZEN).read_bytes(), type=Rules)
    assert copy == STRICT
    assert list(tmp_path.glob("*.partial")) == []
    (tmp_path / FROZEN).write_text(json.dumps({"real_hardware": True}))
    assert said_by(TELL) == STRICT.digest, "nothing reads the copy"


def test_a_full_disk_does_not_keep_rules_from_being_installed(tmp_path):
    install(STRICT, tmp_path / "none")
    assert given() == STRICT


def test_rules_that_no_variable_can_hold_are_refused_before_they_are_installed():
    huge = Rules(constitution=constitution(), grants=Grants(plugins=tuple(map(str, range(20_000)))))
    with pytest.raises(BadInput, match="120000 bytes"):
        install(huge)
    assert given() is None


FORK = """
import sys
from lefleet.constitution import given, install, installed
from lefleet.errors import Denied
from lefleet.process import fork, launch

def main():
    print("fork" if hasattr(fork, "inherited") else "program", given().digest)
    try:
        launch((sys.executable, "-m", "http.server"))
    except Denied as error:
        print(error.rule)

if __name__ == "__main__":
    main()
"""
HOST = """
import os, subprocess, sys
import msgspec
from lefleet.constitution import Rules, install
from lefleet.process import allow_forks, child_environment, fork, launch

fork._PROGRAMS["forked"] = "forked"
fork.inherited = True
allow_forks()
os.environ.update(child_environment())
install(msgspec.json.decode(sys.argv[1], type=Rules))
os.environ["LEFLEET_RULES"] = "loosened"
argv, may_fork = (sys.executable, "-m", "forked"), sys.argv[2] == "y"
child = launch(argv, stdout=subprocess.PIPE, may_fork=may_fork)
print(child.communicate()[0].decode())
"""


@pytest.mark.parametrize(("may_fork", "kind"), [("y", "fork"), ("n", "program")])
def test_a_fork_keeps_the_rules_as_a_new_program_does(tmp_path, may_fork, kind):
    (tmp_path / "forked.py").write_text(FORK)
    path = os.pathsep.join((str(tmp_path), os.environ.get("PYTHONPATH", "")))
    own = rules(commands={"forked": None})
    host = subprocess.run(
        [sys.executable, "-c", HOST, msgspec.json.encode(own).decode(), may_fork],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert host.stdout.split() == [kind, own.digest, "commands"], host.stderr


def test_a_process_with_its_parents_rules_checks_without_yaml_or_lerobot():
    install(STRICT)
    code = (
        "import sys; from lefleet.process import launch\n"
        "launch((sys.executable, '-c', '')).wait()\n"
        "print(sorted({'yaml', 'lerobot', 'torch', 'draccus'} & set(sys.modules)))"
    )
    assert said_by(code) == "[]"


def test_rules_come_from_a_folder_that_cannot_be_read_only_as_an_error(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "constitution.yaml").write_text("version: 9")
    with pytest.raises(BadInput, match="version: 9"):
        launch((sys.executable, "-m", "lefleet.trial.film"))
