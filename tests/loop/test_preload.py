"""A controller imports what its stages need, and only where forks may have it."""

import logging
import sys

import pytest

from lefleet.loop import preload as module
from lefleet.loop.preload import Preload, forks_stages, modules_of
from lefleet.records import DatasetSource, EvaluatePlan, Rung
from lefleet.stages.progress import LOADING
from tests.loop.states import config

SMALL = Rung(name="small")


@pytest.fixture
def preload(monkeypatch, tmp_path):
    """A preload of modules of this test, that does not let launch fork the tests."""
    allowed = []
    for name in ("first_preloaded", "second_preloaded"):
        (tmp_path / f"{name}.py").write_text("")
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.syspath_prepend(tmp_path)
    modules = ["first_preloaded", "second_preloaded"]
    monkeypatch.setattr(module, "modules_of", lambda config: modules)
    monkeypatch.setattr(module.gc, "freeze", lambda: None)
    monkeypatch.setattr(module, "allow_forks", lambda: allowed.append(True))
    monkeypatch.setattr(module, "obstacle", lambda: "")
    monkeypatch.setattr(module.os, "environ", {})

    def make(*, may_fork: bool = True) -> Preload:
        made = Preload(config(), may_fork=may_fork)
        assert bool(allowed) == (bool(made._left))
        return made

    return make


def loaded() -> list[str]:
    return [name for name in ("first_preloaded", "second_preloaded") if name in sys.modules]


def test_modules_are_imported_one_at_a_time_and_the_rest_when_the_next_stage_starts(preload):
    made = preload()
    assert made.import_next()
    assert loaded() == ["first_preloaded"]
    said = []
    made.finish(said.append)
    assert loaded() == ["first_preloaded", "second_preloaded"]
    assert said == [LOADING]
    assert not made.import_next()
    made.finish(said.append)
    assert said == [LOADING], "there is nothing left to load"


def test_the_first_stage_does_not_wait(preload):
    said = []
    preload().finish(said.append)
    assert (loaded(), said) == ([], [])


def test_variables_that_libraries_read_on_import_are_set_before(preload):
    preload()
    wanted = {"HF_HUB_OFFLINE": "1", "TQDM_MININTERVAL": "0.5"}
    assert wanted.items() <= module.os.environ.items()


@pytest.mark.parametrize("code", ["import no_such_module", "raise SystemExit(3)"])
def test_a_module_that_cannot_be_imported_is_left_to_the_stage(preload, tmp_path, caplog, code):
    made = preload()
    (tmp_path / "first_preloaded.py").write_text(code)
    assert made.import_next()
    assert not made.import_next()
    assert loaded() == []
    assert "first_preloaded could not be imported" in caplog.text


def test_the_log_names_a_module_before_it_is_imported(preload, tmp_path, capfd):
    made = preload()
    (tmp_path / "first_preloaded.py").write_text("import sys; sys.stderr.write('imports\\n')")
    made.import_next()
    assert capfd.readouterr().err == "--- importing first_preloaded\nimports\n"


def test_an_import_that_makes_forks_impossible_is_noticed_once(preload, monkeypatch, caplog):
    made, checked = preload(), []
    monkeypatch.setattr(module, "obstacle", lambda: checked.append(loaded()) or "it has 3 threads")
    while made.import_next():
        pass
    made.finish(lambda _: None)
    assert checked == [["first_preloaded", "second_preloaded"]]
    assert "new programs, which takes longer: it has 3 threads." in caplog.text


def test_a_controller_that_cannot_be_forked_says_why_and_imports_nothing(
    preload, monkeypatch, caplog
):
    monkeypatch.setattr(module, "obstacle", lambda: "this is not Linux")
    with caplog.at_level(logging.WARNING):
        assert not preload().import_next()
    assert "Stages are started as new programs, which takes longer: this is not" in caplog.text


def test_another_process_than_a_controllers_own_imports_nothing(preload):
    assert not preload(may_fork=False).import_next()


@pytest.mark.parametrize(
    ("changes", "is_forked"),
    [
        ({}, True),
        ({"device": "cuda"}, False),
        ({"collect": DatasetSource(root="demos")}, True),
        ({"collect": DatasetSource(repo_id="user/demos")}, False),
        ({"ladder": (SMALL, Rung(name="large", policy_type="smolvla"))}, False),
        ({"ladder": (Rung(name="tuned", init="user/policy"),)}, False),
        ({"ladder": (Rung(name="tuned", init="/runs/a/train"),)}, True),
        ({"evaluate": EvaluatePlan(env={"type": "libero"})}, False),
    ],
)
def test_only_runs_on_the_cpu_that_need_no_hub_fork_their_stages(changes, is_forked):
    assert forks_stages(config(**changes)) == is_forked


def test_the_policies_of_the_ladder_are_imported_too():
    modules = modules_of(config(ladder=(SMALL, Rung(name="wide", policy_type="diffusion"))))
    assert "lerobot.policies.act.modeling_act" in modules
    assert "lerobot.policies.diffusion.modeling_diffusion" in modules
