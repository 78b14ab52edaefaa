"""Which checkpoint of a ledger's runs is served, and under which name."""

import json

import msgspec
import pytest

from lefleet.cli.serve import _manifest
from lefleet.cli.serving import Serve
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from lefleet.records import ExpertDemos
from tests.loop.states import config, decision, digest
from tests.policy import tiny
from tests.samples import checkpoint_record


@pytest.fixture(scope="module")
def workdir(tmp_path_factory):
    """Of four runs the second one is the last with a blessed checkpoint: that of cycle 0; cycle 1
    was worse. The newest one was begun by another lefleet. The folder has a name that YAML would
    read as something else."""
    workdir = tmp_path_factory.mktemp("a: b")
    ledger = open_ledger(workdir)
    for name in ("older", "demo", "unfinished"):
        ledger.create_run(name, msgspec.to_builtins(config(name=name)))
    for name, cycle, outcome in (
        ("older", 0, "baseline"),
        ("demo", 0, "baseline"),
        ("demo", 1, "rollback"),
    ):
        folder = workdir / name / f"cycle_{cycle}" / "train"
        folder.mkdir(parents=True)
        attempt = ledger.start_attempt(name, cycle, "train", ExpertDemos())
        ledger.commit_stage(attempt, checkpoint_record(digest=digest(cycle), path=str(folder)))
        ledger.record_decision(name, decision(cycle, outcome, digest(0)))
    ledger.create_run("foreign", {"name": "foreign", "colour": "red"})
    tiny.act_environment(workdir / "demo/cycle_0/train")
    return workdir


@pytest.mark.parametrize(
    ("run", "name", "folder"),
    [
        ("demo", "demo", "demo/cycle_0/train"),
        ("demo:blessed", "demo", "demo/cycle_0/train"),
        ("demo:1", "demo", "demo/cycle_1/train"),
        ("older", "older", "older/cycle_0/train"),
        ("blessed", "demo", "demo/cycle_0/train"),
    ],
)
def test_a_run_stands_for_its_blessed_checkpoint_and_gives_the_name(workdir, run, name, folder):
    manifest = _manifest(Serve(run=run, workdir=workdir), ["--max_sessions=3"])
    assert manifest.model.repo_or_path == str(workdir / folder)
    assert (manifest.model_name, manifest.service_name) == (name, name)
    assert manifest.max_sessions == 3


def test_a_run_that_cannot_be_read_is_skipped_with_a_warning_that_names_it(workdir, caplog):
    assert _manifest(Serve(run="blessed", workdir=workdir), []).model_name == "demo"
    assert caplog.messages == [
        "Run foreign is skipped: run: this lefleet cannot read the config of foreign: "
        "Object contains unknown field `colour`."
    ]


def test_a_run_is_served_instead_of_what_a_manifest_names(workdir, tmp_path):
    path = tmp_path / "serve.yaml"
    path.write_text("model: {repo_or_path: user/policy, dtype: float32}")
    manifest = _manifest(Serve(run="demo", workdir=workdir, manifest=path), [])
    assert manifest.model.repo_or_path == str(workdir / "demo/cycle_0/train")
    assert (manifest.model_name, manifest.model.dtype) == ("demo", "float32")


@pytest.mark.parametrize(
    "override", ["--model.repo_or_path=user/policy", "--model={repo_or_path: user/policy}"]
)
def test_a_run_and_another_checkpoint_are_one_too_many(workdir, override):
    with pytest.raises(
        BadInput, match=r"user/policy is another .* of run demo, which is .*cycle_0"
    ):
        _manifest(Serve(run="demo", workdir=workdir), [override])


@pytest.mark.parametrize(
    ("run", "words"),
    [
        ("unfinished", "run: unfinished has no blessed checkpoint yet"),
        ("foreign", "run: this lefleet cannot read the config of foreign: .*colour"),
        ("demo:7", "run: demo has trained no checkpoint in cycle 7"),
        ("other", "there is no run called other"),
        ("user/policy", r"--model\.repo_or_path=user/policy"),
    ],
)
def test_a_name_that_means_no_checkpoint_is_refused(workdir, run, words):
    with pytest.raises(BadInput, match=words):
        _manifest(Serve(run=run, workdir=workdir), [])


@pytest.mark.parametrize("run", ["demo", "blessed"])
def test_without_a_ledger_there_are_no_runs(tmp_path, run):
    with pytest.raises(BadInput, match=r"run: .* has no ledger"):
        _manifest(Serve(run=run, workdir=tmp_path), [])


def test_the_contract_of_a_run_is_that_of_its_blessed_checkpoint(workdir, lefleet):
    code, out, err = lefleet("contract", "demo", "--workdir", str(workdir), "--json")
    assert code == 0, err
    model = json.loads(out)["manifest"]["model"]
    assert model["repo_or_path"] == str(workdir / "demo/cycle_0/train")


def test_the_checkpoint_of_a_run_is_loaded(workdir, lefleet):
    code, out, err = lefleet("serve", "demo", "--workdir", str(workdir), "--plan", "--json")
    assert code == 0, err
    assert json.loads(out)["inference_s"] > 0
