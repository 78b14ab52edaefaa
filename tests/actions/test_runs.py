"""Runs that a page starts: only from configs that are here already, with a few fields changed."""

from contextlib import closing

import pytest

from lefleet.actions.runs import StartRequest, plan, resume, start, stop, templates
from lefleet.errors import BadInput, Denied
from lefleet.ledger import open_ledger, read_ledger
from lefleet.loop import runs as loop_runs
from lefleet.loop.controller import Controller


@pytest.fixture
def started(monkeypatch):
    """Names of the runs whose controllers would have been started."""
    names = []
    monkeypatch.setattr(loop_runs, "start_controller", lambda _, run: names.append(run))
    return names


def test_a_run_like_the_demo_with_other_budgets(tmp_path, started):
    request = StartRequest(template="demo", name="mine", cycles=2, seed=7, promote="human")
    assert start(tmp_path, None, request, "anna").happened == "created"
    assert started == ["mine"]
    with closing(read_ledger(tmp_path)) as ledger:
        config = ledger.run("mine").config
        created = ledger.feed.recent("mine", kinds=("run_created",))
    assert config["budgets"]["cycles"] == 2
    assert (config["seed"], config["approvals"]["promote"]) == (7, "human")
    assert config["gate"]["max_pairs"] == 60
    assert created[0].data["by"] == "anna"
    assert any("train" in line for line in plan(tmp_path, None, request))
    known = {one.id for one in templates(tmp_path)}
    assert known == {"demo", "run:mine"}
    again = StartRequest(template="run:mine", name="another")
    start(tmp_path, None, again, "anna")
    with closing(read_ledger(tmp_path)) as ledger:
        assert ledger.run("another").config["seed"] == 7


def test_configs_of_a_folder_but_not_those_of_servers(tmp_path, started):
    folder = tmp_path / "configs"
    folder.mkdir()
    (folder / "mine.yaml").write_text("name: x\ntasks: [push]\nladder: [{name: a}]\n")
    (folder / "serve.yaml").write_text("service_name: x\n")
    assert {one.id for one in templates(tmp_path, folder)} == {"demo", "file:mine.yaml"}
    start(tmp_path / "runs", folder, StartRequest(template="file:mine.yaml", name="y"), "anna")
    assert started == ["y"]


@pytest.mark.parametrize(
    "template", ["file:../secret.yaml", "file:/etc/passwd", "run:nobody", "", "file:mine.yaml"]
)
def test_other_configs_are_refused(tmp_path, started, template):
    (tmp_path / "secret.yaml").write_text("name: x\nladder: [{name: a}]\n")
    (tmp_path / "configs").mkdir()
    with pytest.raises(BadInput):
        start(tmp_path, tmp_path / "configs", StartRequest(template=template, name="x"), "anna")
    assert started == []


@pytest.mark.parametrize("name", ["", "../x", "a/b", "knowledge", "-x", "x" * 200])
def test_bad_names_are_refused(tmp_path, started, name):
    with pytest.raises(BadInput):
        start(tmp_path, None, StartRequest(template="demo", name=name), "anna")
    assert started == []


def test_the_constitution_holds_for_pages_too(tmp_path, started):
    (tmp_path / "constitution.yaml").write_text("version: 1\ncaps: {cycles: 1}\n")
    with pytest.raises(Denied):
        start(tmp_path, None, StartRequest(template="demo", name="mine"), "anna")
    assert started == []
    assert not (tmp_path / "ledger.db").exists()


def test_who_stopped_and_who_resumed(tmp_path, started):
    start(tmp_path, None, StartRequest(template="demo", name="mine"), "anna")
    assert stop(tmp_path, "mine", "bert").happened == "stopping"
    assert stop(tmp_path, "mine", "dora").happened == "stopping"
    assert started == ["mine", "mine", "mine"]
    Controller(tmp_path, "mine").run()
    assert stop(tmp_path, "mine", "bert").happened == "stopped"
    assert resume(tmp_path, "mine", "carla").happened == "resumed"
    with closing(open_ledger(tmp_path)) as ledger:
        said = [(one.kind, one.data.get("by")) for one in ledger.events("mine")]
    assert ("stop_requested", "bert") in said
    assert ("stop_requested", "dora") not in said
    assert ("run_resumed", "carla") in said
