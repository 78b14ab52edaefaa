"""Final command lines: LeFleet's own pass, and what LeRobot would understand otherwise does not."""

import sys
from pathlib import Path

import pytest

from lefleet.constitution import Grants, Rules, rules_for, rules_for_request
from lefleet.constitution.argv import flags_as_given, flattened, split
from lefleet.errors import Denied
from lefleet.records import (
    EvaluatePlan,
    NotifyPlan,
    Rung,
    TrainRequest,
)
from lefleet.stages.lerobot_train import start_command
from tests.constitution.cases import OWN_TRAIN, TRAIN, config, dataset, rules, source
from tests.samples import dataset_record


def denied(rules_: Rules, *argv: str, rule: str = "") -> Denied:
    with pytest.raises(Denied) as raised:
        rules_.check_argv(argv)
    assert raised.value.rule.startswith(rule)
    return raised.value


def training(own_folder: Path, request: TrainRequest, **how) -> tuple[str, ...]:
    data = dataset_record(root=str(dataset(own_folder / "data")))
    options = {"init": "", "policy_type": "act", "is_state_only": True, "episodes_present": 3}
    return start_command(request, data, own_folder / "train", **options | how).argv


@pytest.mark.parametrize("memory_data", [True, False])
def test_the_command_line_of_a_training_is_allowed(own, tmp_path, memory_data):
    request = TrainRequest(dataset="d", memory_data=memory_data)
    own.check_argv(training(tmp_path, request), ["HF_HUB_OFFLINE", "TQDM_MININTERVAL"])


def test_a_policy_that_the_stage_made_is_the_runs_own(own, tmp_path):
    made = str(tmp_path / "fresh_policy")
    argv = training(tmp_path, TrainRequest(dataset="d"), fresh=made)
    own.check_argv(argv)
    elsewhere = [word.replace(made, "/elsewhere/fresh_policy") for word in argv]
    denied(own, *elsewhere, rule="checkpoints")


def test_the_command_line_of_a_training_with_everything_that_its_config_names_is_allowed(tmp_path):
    rung = Rung(
        name="a",
        init="me/weights",
        policy={"dtype": "bfloat16", "optimizer_lr": "1e-4"},
        rename_map={"observation.images.a": "observation.images.b"},
        extra_args=("--policy.discover_packages_path=my_policy", "--wandb.enable=true"),
    )
    request = TrainRequest(
        dataset="d", policy=rung.policy, rename_map=rung.rename_map, extra_args=rung.extra_args
    )
    argv = training(tmp_path, request, init="me/weights")
    rules_for(source(), config(ladder=(rung,)), tmp_path).check_argv(argv)
    denied(rules_for(source(), config(), tmp_path), *argv)


def test_an_evaluation_in_another_environment_is_allowed_to_the_run_that_names_it(own, tmp_path):
    env = {"type": "pusht", "task": "PushT-v0"}
    named = [f"--env.{name}={value}" for name, value in env.items()]
    argv = (sys.executable, "-m", "lefleet", "environment", "probe", *named)
    rules_for(source(), config(evaluate=EvaluatePlan(env=env)), tmp_path).check_argv(argv)
    denied(own, *argv, rule="environments")


@pytest.mark.parametrize(
    "arguments",
    [
        ("lefleet", "stage", "exec", "{own}/r/cycle_0/train"),
        ("lefleet", "controller", "exec", "{own}", "r"),
        ("lefleet", "notify", "exec", "{own}", "r"),
        ("lefleet.rollouts.worker", "cuda:1"),
        ("lefleet", "device", "probe", "cuda:1"),
        ("lefleet.trial.host",),
        ("lefleet", "serve", "{own}/c", "--json", "--service_name=t", "--zenoh.listen=[tcp/a:1]"),
    ],
)
def test_programs_of_lefleet_are_allowed_as_it_starts_them(own, tmp_path, arguments):
    named = (one.replace("{own}", str(tmp_path)) for one in arguments)
    own.check_argv((sys.executable, "-m", *named))


@pytest.mark.parametrize(
    ("arguments", "rule"),
    [
        (("-m", "lefleet", "stage", "exec", "/elsewhere"), "commands"),
        (("-m", "lefleet", "controller", "exec", "/elsewhere", "r"), "commands"),
        (("-m", "lefleet", "serve", "/elsewhere/c", "--json"), "checkpoints"),
        (
            ("-m", "lefleet", "serve", "{own}/c", "--json", "--model.discover_packages=[x]"),
            "commands",
        ),
        (("-m", "lefleet", "serve", "{own}/c", "--json", "--insecure"), "commands"),
        (("-m", "lefleet", "rollout", "--robot.type=so101_follower"), "commands"),
        (("-m", "lefleet", "run", "-c", "x.yaml"), "commands"),
        (("-m", "lefleet", "device", "probe", "/a"), "commands"),
        (("-m", "lefleet", "environment", "probe", "--env.type=pusht"), "environments"),
        (("-m", "lefleet", "environment", "probe", "--env.discover_packages_path=x"), "plugins"),
        (("-m", "lefleet", "device", "probe", "cuda", "more"), "commands"),
        (("-m", "lefleet", "stage", "exec", "{own}/a", "--debug"), "commands"),
        (("-m", "lefleet.trial.host", "--any=1"), "commands.lefleet.trial.host"),
        (("-m", "lefleet.cli"), "commands"),
        (("-m", "http.server"), "commands"),
        (("-m", "lerobot.scripts.lerobot_record", "--robot.type=so101_follower"), "commands"),
        (("-c", "print()"), "commands"),
        (("script.py",), "commands"),
        (("-I", "-m", "lefleet.rollouts.worker", "cpu"), "commands"),
        (("-m",), "commands"),
        ((), "commands"),
    ],
)
def test_any_other_use_of_the_interpreter_is_denied(own, tmp_path, arguments, rule):
    named = (one.replace("{own}", str(tmp_path)) for one in arguments)
    denied(own, sys.executable, *named, rule=rule)


@pytest.mark.parametrize(
    "program", ["sh", "/bin/sh", "/usr/bin/env", "python", "/tmp/python", "lefleet"]
)
def test_another_program_is_denied_even_where_it_is_called_like_an_allowed_one(own, program):
    denied(own, program, "-m", "lefleet.rollouts.worker", "cpu", rule="commands")


def test_the_command_that_the_config_names_is_allowed_word_by_word(tmp_path):
    command = ("notify-send", "--urgency=low", "LeFleet")
    own = rules_for(source(), config(notify=NotifyPlan(command=command)), tmp_path)
    own.check_argv(command)
    denied(own, *command, "more", rule="commands")
    denied(own, "notify-send", "--urgency=critical", "LeFleet", rule="commands")
    denied(own, "/tmp/notify-send", "--urgency=low", "LeFleet", rule="commands")


def test_a_listed_program_may_have_listed_arguments():
    listed = rules(
        commands={
            "mail": {"arguments": {"subject": {"one_of": ["run"]}}, "positional": ["*@lab.org"]}
        }
    )
    listed.check_argv(("mail", "--subject=run", "ann@lab.org"))
    denied(listed, "mail", "--subject=other", rule="commands.mail.arguments.subject")
    denied(listed, "mail", "--bcc=eve@x.org", rule="commands.mail")
    denied(listed, "mail", "eve@x.org", rule="commands.mail")


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"min": 1, "max": 10}, ["1", "10", "5.5", "1e1"], ["0", "11", "1e9", "nan", "ten", "0x5"]),
        ({"max": 10}, ["-5"], ["10.1", "inf", ""]),
        ({"one_of": ["cpu", "cuda"]}, ["cpu"], ["cpu ", "cuda:0", "'cpu'"]),
    ],
)
def test_a_range_holds_also_for_what_the_own_config_names(tmp_path, rule, good, bad):
    commands = {"lerobot.scripts.lerobot_train": {"arguments": {"seed": rule}}}
    for value in (*good, *bad):
        flag = f"--seed={value}"
        run = config(ladder=(Rung(name="a", extra_args=(flag,)),))
        own = rules_for(source(commands=commands), run, tmp_path)
        if value in good:
            own.check_argv((*TRAIN, flag))
        else:
            denied(own, *TRAIN, flag, rule="commands")


@pytest.mark.parametrize("key", ["steps", "batch_size", "num_workers"])
def test_a_cap_holds_on_the_command_line_too(own, tmp_path, key):
    strict = rules(
        Grants(flags=(f"--{key}=11",)), caps={"steps": 10, "batch_size": 10, "workers": 10}
    )
    strict.check_argv((*TRAIN, f"--{key}=10"))
    denied(strict, *TRAIN, f"--{key}=11", rule="caps.")
    for value in ("1:30", "nan", "inf", ""):
        denied(strict, *TRAIN, f"--{key}={value}", rule="commands")


@pytest.mark.parametrize(
    ("flag", "rule"),
    [
        ("--policy.path=other/weights", "checkpoints"),
        ("--policy.pretrained_path=/elsewhere", "checkpoints"),
        ("--reward_model.path=other/weights", "checkpoints"),
        ("--dataset.repo_id=other/data", "datasets"),
        ("--dataset.root=/elsewhere", "datasets"),
        ("--env.type=pusht", "environments"),
        ("--env.robot.type=so101_follower", "real_hardware"),
        ("--env.discover_packages_path=evil", "plugins"),
        ("--discover_packages_path=evil", "plugins"),
        ("--xdiscover_packages_pathy=evil", "plugins"),
        ("--discover-packages-path=evil", "plugins"),
        ("--env.hub_path=evil/env", "plugins"),
        ("--config_path=/elsewhere/train_config.json", "config_paths"),
        ("--output_dir=/elsewhere", "commands"),
        ("--policy.push_to_hub=true", "uploads"),
        ("--policy.push-to-hub=true", "uploads"),
        ("--policy.push_to_hub=yes", "uploads"),
        ("--save_checkpoint_to_hub=true", "uploads"),
        ("--wandb.enable=true", "uploads"),
        ("--eval.recording_repo_id=me/x", "uploads"),
        ("--job.target=a10g-small", "uploads"),
        ("--trust_remote_code=true", "plugins"),
        ("--peft.r=8", "commands.lerobot.scripts.lerobot_train.arguments"),
        ("--policy.vlm_model_name=evil/model", "commands.lerobot.scripts.lerobot_train.arguments"),
    ],
)
@pytest.mark.parametrize("program", [TRAIN, OWN_TRAIN], ids=["lerobot", "lefleet"])
def test_a_flag_that_nobody_named_is_denied_by_what_it_means(own, program, flag, rule):
    error = denied(own, *program, flag)
    assert error.rule.replace("lefleet.compat.train", "lerobot.scripts.lerobot_train") == rule


def test_a_flag_is_not_allowed_because_a_pattern_lists_its_key(tmp_path):
    commands = {"lerobot.scripts.lerobot_train": {"arguments": {"*": {}}}}
    wide = rules_for(source(commands=commands), config(), tmp_path)
    wide.check_argv((*TRAIN, "--anything=1"))
    for flag, rule in (
        ("--policy.path=other/weights", "checkpoints"),
        ("--dataset.root=/elsewhere", "datasets"),
        ("--env.discover_packages_path=evil", "plugins"),
        ("--policy.push_to_hub=true", "uploads"),
    ):
        denied(wide, *TRAIN, flag, rule=rule)


def test_data_that_would_be_downloaded_is_judged_by_its_name_too(own, tmp_path):
    """LeRobot takes a folder without a dataset for the place to download it to."""
    here = dataset(tmp_path / "data")
    own.check_argv((*TRAIN, "--dataset.repo_id=local/data", f"--dataset.root={here}"))
    empty = f"--dataset.root={tmp_path / 'empty'}"
    denied(own, *TRAIN, "--dataset.repo_id=other/data", empty, rule="datasets")
    denied(own, *TRAIN, "--dataset.repo_id=local/data", rule="datasets")


@pytest.mark.parametrize("kind", ["datasets", "models"])
def test_lerobots_copy_of_a_hub_id_is_that_hub_id(kind, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_HOME", str(tmp_path / "hf"))
    copy = tmp_path / "hf" / "hub" / f"{kind}--me--mine" / "snapshots" / "abc"
    other = tmp_path / "hf" / "hub" / f"{kind}--you--yours" / "snapshots" / "abc"
    named = rules(Grants(datasets=("me/mine",), checkpoints=("me/mine",)))
    key = "dataset.root" if kind == "datasets" else "policy.path"
    named.check_argv((*TRAIN, f"--{key}={copy}"))
    denied(named, *TRAIN, f"--{key}={other}")
    denied(named, *TRAIN, f"--{key}={copy}/../../../{kind}--you--yours")
    denied(named, *TRAIN, f"--{key}={tmp_path}/{kind}--me--mine")


def test_lerobots_own_cache_of_datasets_is_known(tmp_path, monkeypatch):
    monkeypatch.setenv("HF_LEROBOT_HOME", str(tmp_path / "lerobot"))
    named = rules(Grants(datasets=("me/mine",)))
    named.check_argv((*TRAIN, f"--dataset.root={tmp_path}/lerobot/me/mine"))
    named.check_argv(
        (*TRAIN, f"--dataset.root={tmp_path}/lerobot/hub/datasets--me--mine/snapshots/a")
    )
    denied(named, *TRAIN, f"--dataset.root={tmp_path}/lerobot/you/yours", rule="datasets")


@pytest.mark.parametrize("name", ["other/weights", "gpt2", "a/b/c"])
def test_a_name_of_the_hub_is_not_the_runs_own_because_it_works_in_its_folder(
    own, tmp_path, monkeypatch, name
):
    """LeRobot takes a folder that is not there for a name on the hub."""
    monkeypatch.chdir(tmp_path)
    denied(own, *TRAIN, f"--policy.path={name}", rule="checkpoints")
    denied(own, *TRAIN, f"--dataset.repo_id={name}", rule="datasets")
    (tmp_path / name).mkdir(parents=True)
    own.check_argv((*TRAIN, f"--policy.path={name}"))


@pytest.mark.parametrize("name", ["PYTHONPATH", "LD_PRELOAD", "PATH", "HF_ENDPOINT", "PYTHONHOME"])
def test_a_variable_that_is_not_listed_may_not_be_set(own, name):
    worker = (sys.executable, "-m", "lefleet.rollouts.worker", "cpu")
    own.check_argv(worker, ["LEFLEET_STAGE", "HF_HUB_OFFLINE"])
    with pytest.raises(Denied, match=f"variables: the environment variable {name}"):
        own.check_argv(worker, [name])
    rules(variables=["*"]).check_argv(worker, [name])


def test_what_a_person_typed_for_one_stage_counts_for_its_command_line(tmp_path):
    request = TrainRequest(dataset=str(tmp_path / "data"), extra_args=("--peft.r=8",))
    typed = rules_for_request(source(), request, tmp_path / "train")
    argv = training(tmp_path, request)
    typed.check_argv(argv)
    denied(typed, *argv, "--peft.method_type=LORA", rule="commands")
    out = [f"--output_dir={tmp_path}/x" if one.startswith("--output_dir") else one for one in argv]
    denied(typed, *out, rule="commands")


def test_code_from_the_hub_is_denied(own):
    denied(own, *TRAIN, "--trust_remote_code=true", rule="plugins")


def test_lerobots_own_evaluation_is_started_by_nothing_and_allowed_to_nobody(own):
    denied(own, sys.executable, "-m", "lerobot.scripts.lerobot_eval", rule="commands")


def test_a_command_line_is_split_as_python_reads_it():
    assert split(TRAIN) == ("lerobot.scripts.lerobot_train", ())
    assert split((sys.executable, "-m", "a.b", "c")) == ("a.b", ("c",))
    assert split((sys.executable, "-c", "x")) == ("python", ("-c", "x"))
    assert split(("mail", "-s")) == ("mail", ("-s",))


def test_a_persons_flags_are_read_with_equals_signs_and_spaces():
    typed = ["--robot.type", "a", "--x=1", "--robot.type=b", "y", "--flag"]
    assert flags_as_given(typed) == {"robot.type": "b", "x": "1", "flag": ""}


def test_a_config_file_becomes_flags():
    content = {"a": {"b-c": 1, "d": None, "e": True}, "f": [1, "x"], "g": "text", "h": {}}
    assert flattened(content) == {"a.b_c": "1", "a.e": "true", "f": '[1,"x"]', "g": "text"}
