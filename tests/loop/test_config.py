"""A config file, overrides on top of it, and what is wrong with them."""

from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.loop.config import check_workdir, load_config
from lefleet.records import DatasetSource, ExpertGrowth

GOOD = """
name: mine
tasks: [push, reach]
collect: {source: expert, episodes_per_task: [2, 4]}
ladder: [{name: small, steps: 10}]
budgets: {cycles: 2}
"""


@pytest.fixture
def load(tmp_path):
    def run(*overrides: str, text: str = GOOD):
        path = tmp_path / "config.yaml"
        path.write_text(text)
        return load_config(path, overrides)

    return run


def test_a_good_file_is_a_config(load):
    config = load()
    assert (config.name, config.tasks, config.budgets.cycles) == ("mine", ("push", "reach"), 2)
    assert config.collect == ExpertGrowth(episodes_per_task=(2, 4))
    assert [rung.steps for rung in config.ladder] == [10]


@pytest.mark.parametrize("name", ["demo", "metaworld_mt10"])
def test_the_configs_in_the_repository_are_good(name, pytestconfig):
    load_config(pytestconfig.rootpath / "configs" / f"{name}.yaml")


@pytest.mark.parametrize(
    ("override", "read"),
    [
        ("--name=other", lambda config: config.name == "other"),
        ("--budgets.cycles=5", lambda config: config.budgets.cycles == 5),
        ("--budgets.wall_hours=0.5", lambda config: config.budgets.wall_hours == 0.5),
        ("--tasks=[push]", lambda config: config.tasks == ("push",)),
        ("--continue_training=false", lambda config: not config.continue_training),
        (
            "--collect.episodes_per_task=[1, 3]",
            lambda config: config.collect.episodes_per_task == (1, 3),
        ),
        (
            "--collect={source: dataset, repo_id: a/b}",
            lambda config: config.collect == DatasetSource(repo_id="a/b"),
        ),
        ("--gate.alpha=0.01", lambda config: config.gate.alpha == 0.01),
        ("--ladder=[{name: x=y}]", lambda config: config.ladder[0].name == "x=y"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_override_replaces_one_field(load, override, read):
    assert read(load(override))


def test_the_last_override_of_a_field_counts(load):
    assert load("--seed=1", "--seed=2").seed == 2


@pytest.mark.parametrize(
    ("override", "named"),
    [
        ("--cycles=3", "cycles"),
        ("--budgets.cycels=3", "cycels"),
        ("--budgets.cycles=many", "budgets.cycles"),
        ("--budgets.cycles=0", "budgets.cycles"),
        ("--gate.alpha=1", "gate.alpha"),
        ("--ladder=[]", "ladder"),
        ("--ladder.0.steps=5", "ladder"),
        ("--name.first=x", "name"),
        ("--collect.source=magic", "source"),
        ("--collect.episodes_per_task=[3, 3]", "collect.episodes_per_task"),
        ("--collect.episodes_per_task=[5, 2]", "collect.episodes_per_task"),
        ("--collect.episodes_per_task=[]", "collect.episodes_per_task"),
        ("--name=", "name"),
        ("--name=a/b", "name"),
        ("--name=a b", "name"),
        ("--name=..", "name"),
        ("--name=-a", "name"),
        ("--name=ä", "name"),
        ("--name='a\\n'", "name"),
        (f"--name={'a' * 101}", "name"),
        ("--name=blessed", "name"),
        ("--name=comparisons", "name"),
        ("--name=knowledge", "name"),
        ("--device=gpu", "device"),
        ("--device='cuda:'", "device"),
        ("--ladder=[{name: a, rename_map: {a: b}}]", "ladder[0].rename_map"),
        ("--tasks=[pussh]", "push"),
        ("--seed=100", "seed"),
        ("--budgets.cycles=101", "budgets.cycles"),
        ("seed=1", "--key=value"),
        ("--seed", "--key=value"),
        ("--tasks=[push", "tasks"),
    ],
)
def test_a_mistake_is_bad_input_and_named(load, override, named):
    with pytest.raises(BadInput) as caught:
        load(override)
    assert named in str(caught.value)
    assert caught.value.exit_code == 2


@pytest.mark.parametrize(
    ("override", "words"),
    [
        (
            "--budget.cycles=3",
            "--budget.cycles: there is no field budget. Did you mean --budgets.cycles?",
        ),
        (
            "--budgets.cycels=3",
            "--budgets.cycels: there is no field budgets.cycels. Did you mean --budgets.cycles?",
        ),
        ("--cycles=3", "--cycles: there is no field cycles. Did you mean --budgets.cycles?"),
        ("--budgets.cycles=many", "--budgets.cycles: Expected `int`, got `str`."),
        (
            "--budgets={cycles: many}",
            "--budgets: budgets.cycles: Expected `int`, got `str`.",
        ),
    ],
)
def test_a_wrong_flag_is_named_and_not_the_file(load, override, words):
    with pytest.raises(BadInput) as caught:
        load("--seed=1", override)
    assert str(caught.value) == words


@pytest.mark.parametrize("device", ["auto", "cpu", "cuda", "cuda:1", "mps"])
def test_a_torch_device_is_good(load, device):
    assert load(f"--device={device}").device == device


@pytest.mark.parametrize("name", ["a", "_a", "1.2-b_c", "a" * 100])
def test_a_name_of_plain_letters_is_good(load, name):
    assert load(f"--name='{name}'").name == name


@pytest.mark.parametrize("given", ["none", "[none]", "[]"])
def test_no_tracker_can_be_said(load, given):
    assert load(f"--track={given}").track == ()


def test_a_list_has_no_fields_and_the_remedy_is_named(load):
    with pytest.raises(BadInput, match="--ladder=VALUE"):
        load("--ladder.0.steps=5")


def test_local_paths_do_not_depend_on_where_a_run_is_resumed(load, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "policy").mkdir()
    config = load(
        "--collect={source: dataset, root: data}", "--ladder=[{name: a, init: ../policy}]"
    )
    assert config.collect.root == str(tmp_path / "data")
    assert config.ladder[0].init == "../policy", "it does not exist"
    monkeypatch.chdir(tmp_path / "data")
    config = load("--ladder=[{name: a, init: ../policy}, {name: b, init: lerobot/act}, {name: c}]")
    assert Path(config.ladder[0].init).samefile(tmp_path / "policy")
    assert Path(config.ladder[0].init).is_absolute()
    assert [rung.init for rung in config.ladder[1:]] == ["lerobot/act", ""]


def test_a_program_that_tells_people_is_found_wherever_a_run_is_resumed(
    load, tmp_path, monkeypatch
):
    program = tmp_path / "tell-me"
    program.touch(mode=0o755)
    monkeypatch.chdir(tmp_path)
    assert load("--notify.command=[./tell-me, -v]").notify.command == (str(program), "-v")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert load("--notify.command=[~/tell-me]").notify.command == (str(program),)
    assert load("--notify.command=[sh, -c]").notify.command == ("sh", "-c")


def test_a_program_that_cannot_tell_people_is_named(load):
    with pytest.raises(BadInput, match=r"notify\.command: there is no program './no-such'"):
        load("--notify.command=[./no-such]")


@pytest.mark.parametrize("path", ["/a #b", "/a: b", "/a\nb"])
def test_a_workdir_that_lerobot_misreads_is_named(path):
    with pytest.raises(BadInput, match="workdir: "):
        check_workdir(Path(path))


def test_a_workdir_with_a_space_is_good():
    check_workdir(Path("/my robots/a#b:c"))


def test_an_existing_dataset_is_not_improved(load):
    with pytest.raises(BadInput, match=r"improve\.method"):
        load("--collect={source: dataset, repo_id: a/b}", "--improve.method=correct")


def test_tasks_of_another_environment_are_not_looked_up(load):
    flags = ("--evaluate.env={type: pusht}", "--tasks=[anything]")
    data = "--collect={source: dataset, repo_id: a/b}"
    assert load(*flags, data).tasks == ("anything",)
    assert load(*flags).tasks == ("anything",)


@pytest.mark.parametrize("task", ["open the drawer", "fold the towel", "drawer"])
def test_a_run_on_tasks_of_ones_own_is_told_about_the_environment(load, task):
    data = "--collect={source: dataset, repo_id: a/b}"
    with pytest.raises(BadInput) as caught:
        load(data, f"--tasks=[{task}]")
    assert caught.value.problem == f"tasks: no MetaWorld task or task set is called '{task}'."
    assert "set evaluate.env, for instance --evaluate.env.type=pusht" in caught.value.remedy


@pytest.mark.parametrize("numbers", ["[3, 3]", "[5, 2]", "[]", "[0, 4]", "-1", "[2, x]"])
def test_a_selection_that_does_not_grow_is_named(load, numbers):
    data = "--collect={source: dataset, repo_id: a/b}"
    with pytest.raises(BadInput, match=r"collect\.episodes_per_task"):
        load(data, f"--collect.episodes_per_task={numbers}")


@pytest.mark.parametrize(
    ("written", "read"), [("[10, 20, 40]", (10, 20, 40)), ("[7]", (7,)), ("7", 7), ("0", 0)]
)
def test_a_selection_may_grow(load, written, read):
    data = f"--collect={{source: dataset, repo_id: a/b, episodes_per_task: {written}}}"
    assert load(data).collect.episodes_per_task == read


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("name: [", "is not YAML"),
        ("", "must hold fields"),
        ("[1, 2]", "must hold fields"),
        ("name: x", "ladder"),
    ],
)
def test_a_file_that_is_no_config_is_named(load, tmp_path, text, words):
    with pytest.raises(BadInput, match=words) as caught:
        load(text=text)
    assert str(tmp_path / "config.yaml") in caught.value.problem


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"none\.yaml cannot be read"):
        load_config(tmp_path / "none.yaml")


@pytest.mark.parametrize("text", ["seed: 1\nseed: 2\n", "budgets: {cycles: 1, cycles: 2}\n"])
def test_a_field_that_is_there_twice_is_refused(tmp_path, text):
    path = tmp_path / "twice.yaml"
    path.write_text(f"name: r\nladder: [{{name: a}}]\n{text}")
    with pytest.raises(BadInput, match="is there twice"):
        load_config(path)
