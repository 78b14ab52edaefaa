"""What users call a checkpoint: one rule for all commands."""

import json

import pytest

from lefleet.cli.checkpoints import NamedCheckpoint, resolve_checkpoint
from lefleet.cli.commands import ServeCommand
from lefleet.cli.serve import manifest_for
from lefleet.errors import BadInput


@pytest.mark.parametrize(
    ("name", "shown", "folder"),
    [
        ("demo", "demo:blessed", "demo/cycle_0/train"),
        ("demo:blessed", "demo:blessed", "demo/cycle_0/train"),
        ("demo:1", "demo:1", "demo/cycle_1/train"),
        ("older", "older:blessed", "older/cycle_0/train"),
        ("blessed", "demo:blessed", "demo/cycle_0/train"),
    ],
)
def test_a_run_stands_for_its_blessed_checkpoint(blessed_workdir, name, shown, folder):
    assert resolve_checkpoint(name, blessed_workdir, "a") == NamedCheckpoint(
        location=str(blessed_workdir / folder),
        origin="run",
        name=shown,
        run=shown.partition(":")[0],
    )


@pytest.fixture
def here(tmp_path, monkeypatch):
    """The current directory, with folders of the names of things that are not folders."""
    for name in ("demo", "blessed", "unfinished", "policy", "with:colon", "deep/policy"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(
    "name", ["policy", "./policy", "deep/policy", "./demo", "./blessed", "with:colon", "."]
)
def test_a_folder_is_found_by_its_path(blessed_workdir, here, name):
    found = resolve_checkpoint(name, blessed_workdir, "a")
    assert (found.location, found.origin) == (str((here / name).resolve()), "folder")
    assert (found.name, found.run, found.note) == (name, "", "")


def test_a_folder_in_the_home_folder_is_found(blessed_workdir, here, monkeypatch):
    monkeypatch.setenv("HOME", str(here))
    assert resolve_checkpoint("~/policy", blessed_workdir, "a").location == str(here / "policy")


@pytest.mark.parametrize("name", ["demo", "blessed"])
def test_a_run_wins_over_a_folder_of_the_same_name_and_the_note_says_so(
    blessed_workdir, here, name
):
    found = resolve_checkpoint(name, blessed_workdir, "a")
    assert (found.run, found.origin) == ("demo", "run")
    using = f"{name} is both a run and a folder; using the run. For the folder, write ./{name}"
    assert found.note == using


def test_the_folder_of_the_run_itself_is_no_ambiguity(blessed_workdir, monkeypatch):
    monkeypatch.chdir(blessed_workdir)
    assert resolve_checkpoint("demo", blessed_workdir, "a").note == ""


def test_without_a_ledger_every_name_is_a_folder(here, tmp_path_factory):
    empty = tmp_path_factory.mktemp("empty")
    assert resolve_checkpoint("demo", empty, "a").location == str(here / "demo")
    assert list(empty.iterdir()) == []


def test_a_hub_id_stays_a_hub_id(blessed_workdir):
    found = resolve_checkpoint("user/policy", blessed_workdir, "a")
    assert found == NamedCheckpoint(location="user/policy", origin="hub", name="user/policy")


@pytest.mark.parametrize("name", ["./missing", "../missing", "/no/where"])
def test_a_path_that_does_not_exist_is_no_hub_id(blessed_workdir, here, name):
    found = resolve_checkpoint(name, blessed_workdir, "a")
    assert (found.location, found.origin) == (str((here / name).resolve()), "folder")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("~no-such-user/policy", "a: ~no-such-user/policy: there is no such user"),
        ("demo:7", "a: demo has trained no checkpoint in cycle 7"),
        ("demo:²", "a: ² is not a cycle of demo"),
        ("demo:last", "a: last is not a cycle of demo"),
        ("unfinished:blessed", "a: unfinished has no blessed checkpoint yet"),
        ("unfinished", "a: unfinished has no blessed checkpoint yet"),
        ("foreign", "this lefleet cannot read the config of foreign: .*colour"),
        ("other", "a: other does not exist.*Runs in .*: older, demo, unfinished, foreign"),
        (
            "other:0",
            "a: there is no run called other.*Runs in .*: older, demo, unfinished, foreign",
        ),
    ],
)
def test_a_name_that_means_no_checkpoint_is_refused(blessed_workdir, name, words):
    with pytest.raises(BadInput, match=words):
        resolve_checkpoint(name, blessed_workdir, "a")


@pytest.mark.parametrize("name", ["demo:0", "demo:blessed", "blessed"])
def test_a_name_that_can_only_be_a_run_is_refused_without_a_ledger(tmp_path, name):
    with pytest.raises(BadInput, match=f"a: .*no run .*in {tmp_path}"):
        resolve_checkpoint(name, tmp_path, "a")
    assert list(tmp_path.iterdir()) == []


def test_a_run_that_cannot_be_read_is_skipped_with_a_warning_that_names_it(blessed_workdir, caplog):
    assert resolve_checkpoint("blessed", blessed_workdir, "a").run == "demo"
    (message,) = caplog.messages
    assert message.startswith("Run foreign is skipped: ")
    assert "`colour`" in message


@pytest.mark.parametrize("name", ["demo", "blessed"])
def test_a_served_run_gives_its_name_to_model_and_service(blessed_workdir, name):
    command = ServeCommand(checkpoint=name, workdir=blessed_workdir)
    manifest = manifest_for(command, ["--max_sessions=3"])
    assert manifest.model.repo_or_path == str(blessed_workdir / "demo/cycle_0/train")
    assert (manifest.model_name, manifest.service_name) == ("demo", "demo")
    assert manifest.max_sessions == 3


@pytest.mark.parametrize(("name", "model"), [("./policy", "policy"), ("user/fold", "user/fold")])
def test_a_folder_or_hub_id_is_served_under_its_own_name(blessed_workdir, here, name, model):
    manifest = manifest_for(ServeCommand(checkpoint=name, workdir=blessed_workdir), [])
    named = manifest_for(ServeCommand(), [f"--model.repo_or_path={model}"])
    assert manifest.model.repo_or_path.endswith(model)
    assert manifest.model_name == named.model_name


def test_a_folder_of_the_same_name_does_not_hide_a_run(blessed_workdir, here, capsys):
    manifest = manifest_for(ServeCommand(checkpoint="demo", workdir=blessed_workdir), [])
    assert manifest.model.repo_or_path == str(blessed_workdir / "demo/cycle_0/train")
    assert "lefleet: demo is both a run and a folder; using the run." in capsys.readouterr().err


def test_a_checkpoint_is_served_instead_of_the_one_in_the_manifest(blessed_workdir, tmp_path):
    path = tmp_path / "serve.yaml"
    path.write_text("model: {repo_or_path: user/policy, dtype: float32}")
    command = ServeCommand(checkpoint="demo", workdir=blessed_workdir, manifest=path)
    manifest = manifest_for(command, [])
    assert manifest.model.repo_or_path == str(blessed_workdir / "demo/cycle_0/train")
    assert (manifest.model_name, manifest.model.dtype) == ("demo", "float32")


def test_a_broken_manifest_is_still_refused(blessed_workdir, tmp_path):
    path = tmp_path / "serve.yaml"
    path.write_text("model: user/policy")
    with pytest.raises(BadInput, match="model: Expected `object`"):
        manifest_for(ServeCommand(checkpoint="demo", workdir=blessed_workdir, manifest=path), [])


@pytest.mark.parametrize(
    "override", ["--model.repo_or_path=user/policy", "--model={repo_or_path: user/policy}"]
)
def test_two_checkpoints_are_one_too_many(blessed_workdir, override):
    with pytest.raises(BadInput, match=r"user/policy is not the checkpoint that demo names, .*c"):
        manifest_for(ServeCommand(checkpoint="demo", workdir=blessed_workdir), [override])


def test_the_contract_of_a_run_is_that_of_its_blessed_checkpoint(blessed_workdir, lefleet):
    code, out, err = lefleet("contract", "demo", "--workdir", str(blessed_workdir), "--json")
    assert code == 0, err
    model = json.loads(out)["manifest"]["model"]
    assert model["repo_or_path"] == str(blessed_workdir / "demo/cycle_0/train")


def test_the_checkpoint_of_a_run_is_loaded(blessed_workdir, lefleet):
    arguments = ("serve", "demo", "--workdir", str(blessed_workdir), "--plan", "--json")
    code, out, err = lefleet(*arguments)
    assert code == 0, err
    assert json.loads(out)["inference_s"] > 0
