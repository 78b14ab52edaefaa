"""Every rule, both ways: configs, stages, tasks, robots, servers and rollouts."""

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lefleet.constitution import (
    Grants,
    RolloutFacts,
    Rules,
    packaged,
    restored,
    rules_for,
    rules_for_request,
    stored,
)
from lefleet.errors import Denied
from lefleet.loop.config import load_config
from lefleet.records import (
    Budgets,
    CompareRequest,
    Corrections,
    DatasetRecord,
    DatasetSource,
    EvaluatePlan,
    EvaluateRequest,
    ExistingDataset,
    ExpertDemos,
    ExpertGrowth,
    GatePlan,
    ImprovePlan,
    ImproveRequest,
    NotifyPlan,
    ProfileRequest,
    ProposePlan,
    Rung,
    TrainRequest,
    encode,
)
from tests.constitution.cases import config, constitution, dataset, rules, source
from tests.samples import dataset_record, finished_stage
from tests.test_repository import ROOT


def denied(check, rule: str, *said: str) -> Denied:
    """`check()` is denied by this rule, with these words in its reason."""
    with pytest.raises(Denied) as raised:
        check()
    error = raised.value
    assert error.rule == rule
    assert error.remedy, "a denial says what helps"
    assert error.exit_code == 4
    for words in said:
        assert words in error.reason
    return error


@pytest.mark.parametrize("file", sorted(ROOT.glob("configs/*.yaml")), ids=lambda file: file.stem)
def test_every_config_that_comes_with_lefleet_is_allowed_as_it_is(file, tmp_path):
    if file.stem == "serve":
        pytest.skip("a manifest")
    run = load_config(file)
    rules_for(source(), run, tmp_path).check_config(run)


OWN = {
    "an environment": config(evaluate=EvaluatePlan(env={"type": "kitchen", "task": "cook"})),
    "a dataset on the hub": config(collect=DatasetSource(repo_id="me/data", tasks=("fold",))),
    "a dataset in a folder": config(collect=DatasetSource(root="/data/mine", tasks=("fold",))),
    "a checkpoint": config(ladder=(Rung(name="a", init="me/weights"),)),
    "a policy's setting": config(ladder=(Rung(name="a", policy={"vlm_model_name": "a/b"}),)),
    "a flag": config(ladder=(Rung(name="a", extra_args=("--peft.r=8",)),)),
    "a package": config(
        ladder=(Rung(name="a", extra_args=("--policy.discover_packages_path=my_policy",)),)
    ),
    "an upload": config(ladder=(Rung(name="a", extra_args=("--wandb.enable=true",)),)),
    "a command": config(notify=NotifyPlan(command=("notify-send", "LeFleet"))),
    "a webhook": config(notify=NotifyPlan(webhook="https://example.org")),
}
RULE = {
    "an environment": "environments",
    "a dataset on the hub": "datasets",
    "a dataset in a folder": "datasets",
    "a checkpoint": "checkpoints",
    "a policy's setting": "commands.lerobot.scripts.lerobot_train.arguments",
    "a flag": "commands.lerobot.scripts.lerobot_train.arguments",
    "a package": "plugins",
    "an upload": "uploads",
    "a command": "commands",
    "a webhook": "uploads",
}


@pytest.mark.parametrize("what", OWN)
def test_what_the_own_config_names_is_allowed_unless_own_config_is_off(what, tmp_path):
    run = OWN[what]
    rules_for(source(), run, tmp_path).check_config(run)
    strict = rules_for(source(own_config=False), run, tmp_path)
    denied(lambda: strict.check_config(run), RULE[what])


@pytest.mark.parametrize("what", OWN)
def test_what_one_config_names_is_not_allowed_to_another_run(what, tmp_path):
    other = rules_for(source(), config(), tmp_path)
    denied(lambda: other.check_config(OWN[what]), RULE[what])


@pytest.mark.parametrize(
    ("what", "lists"),
    [
        (
            "an environment",
            {"environments": ["kitch*"], "commands": {"*": {"arguments": {"*": {}}}}},
        ),
        ("a dataset on the hub", {"datasets": ["me/*"], "environments": ["*"]}),
        ("a dataset in a folder", {"datasets": ["/data"], "environments": ["*"]}),
        ("a checkpoint", {"checkpoints": ["me/weights"], "environments": ["*"]}),
        ("a package", {"plugins": ["my_*"], "environments": ["*"]}),
        ("a command", {"commands": {"lefleet": None, "notify-send": {"positional": ["Le*"]}}}),
        ("a webhook", {"uploads": True}),
    ],
)
def test_what_is_listed_is_allowed_to_all(what, lists, tmp_path):
    strict = rules_for(source(own_config=False, **lists), OWN[what], tmp_path)
    strict.check_config(OWN[what])


@pytest.mark.parametrize(
    ("caps", "run", "said"),
    [
        ({"steps": 10}, config(ladder=(Rung(name="big", steps=11),)), "steps of rung big is 11"),
        ({"batch_size": 8}, config(ladder=(Rung(name="big", batch_size=9),)), "batch_size of"),
        ({"workers": 1}, config(ladder=(Rung(name="big", num_workers=2),)), "num_workers of"),
        ({"cycles": 2}, config(budgets=Budgets(cycles=3)), "budgets.cycles is 3"),
        ({"pairs": 10}, config(gate=GatePlan(max_pairs=11)), "gate.max_pairs is 11"),
        (
            {"episodes_per_task": 24},
            config(collect=ExpertGrowth(episodes_per_task=(2, 25))),
            "collect.episodes_per_task is 25",
        ),
        (
            {"episodes_per_task": 24},
            config(evaluate=EvaluatePlan(episodes_per_task=25)),
            "evaluate.episodes_per_task is 25",
        ),
        (
            {"episodes_per_task": 29},
            config(improve=ImprovePlan(method="harvest", episodes_per_task=30)),
            "improve.episodes_per_task is 30",
        ),
        ({"wall_hours": 2}, config(), "budgets.wall_hours is not set"),
        ({"wall_hours": 2}, config(budgets=Budgets(wall_hours=3)), "budgets.wall_hours is 3"),
        ({"device_hours": 2.5}, config(), "budgets.device_hours is not set; at most 2.5"),
        (
            {"llm_tokens": 100},
            config(propose=ProposePlan(model="openai:x")),
            "budgets.llm_tokens is not set",
        ),
    ],
)
def test_a_config_above_a_cap_is_denied_even_though_it_is_its_own(caps, run, said, tmp_path):
    rule = f"caps.{next(iter(caps))}"
    limited = rules_for(source(caps=caps), run, tmp_path)
    error = denied(lambda: limited.check_config(run), rule, said)
    assert rule in error.remedy
    assert "test.yaml" in error.remedy
    rules_for(source(caps={}), run, tmp_path).check_config(run)


def test_a_run_that_asks_no_model_needs_no_budget_of_tokens(tmp_path):
    rules_for(source(caps={"llm_tokens": 5}), config(), tmp_path).check_config(config())


STAGES = [
    (ExpertDemos(episodes_per_task=25), {"episodes_per_task": 24}),
    (ExpertDemos(episodes={"push": 25}, episodes_per_task=1), {"episodes_per_task": 24}),
    (ExpertDemos(workers=9), {"workers": 8}),
    (ExistingDataset(root="/d", tasks=("a",), episodes_per_task=9), {"episodes_per_task": 8}),
    (Corrections(checkpoint="/c", episodes_per_task=9), {"episodes_per_task": 8}),
    (TrainRequest(dataset="/d", steps=11), {"steps": 10}),
    (TrainRequest(dataset="/d", batch_size=11), {"batch_size": 10}),
    (TrainRequest(dataset="/d", num_workers=11), {"workers": 10}),
    (EvaluateRequest(checkpoint="/c", episodes_per_task=9), {"episodes_per_task": 8}),
    (EvaluateRequest(checkpoint="/c", batch_size=9), {"batch_size": 8}),
    (CompareRequest(checkpoint="/c", baseline="/b", max_pairs=9), {"pairs": 8}),
    (ImproveRequest(checkpoint="/c", demos="/d", episodes_per_task=9), {"episodes_per_task": 8}),
    (ProfileRequest(checkpoint="/c", robots=9), {"robots": 8}),
    (ProfileRequest(checkpoint="/c", episodes=9), {"episodes_per_task": 8}),
]


@pytest.mark.parametrize(("request_", "caps"), STAGES, ids=lambda one: type(one).__name__)
def test_a_stage_above_a_cap_is_denied_though_a_person_typed_it(request_, caps, tmp_path):
    typed = rules_for_request(source(caps=caps), request_, tmp_path)
    denied(lambda: typed.check_request(request_), f"caps.{next(iter(caps))}")
    rules_for_request(source(caps={}), request_, tmp_path).check_request(request_)


FOREIGN = [
    (ExistingDataset(repo_id="other/data", tasks=("a",)), "datasets"),
    (ExistingDataset(root="/elsewhere", tasks=("a",)), "datasets"),
    (ExpertDemos(add_to=("/elsewhere",)), "datasets"),
    (Corrections(checkpoint="other/weights"), "checkpoints"),
    (TrainRequest(dataset="/elsewhere"), "datasets"),
    (TrainRequest(dataset="{own}/d", init="other/weights"), "checkpoints"),
    (TrainRequest(dataset="{own}/d", policy={"path": "other/weights"}), "checkpoints"),
    (TrainRequest(dataset="{own}/d", policy={"push_to_hub": "true"}), "uploads"),
    (TrainRequest(dataset="{own}/d", extra_args=("--job.target=a100",)), "uploads"),
    (TrainRequest(dataset="{own}/d", extra_args=("--env.type=pusht",)), "environments"),
    (EvaluateRequest(checkpoint="/elsewhere"), "checkpoints"),
    (EvaluateRequest(checkpoint="{own}/c", env={"type": "pusht"}), "environments"),
    (CompareRequest(checkpoint="{own}/c", baseline="other/weights"), "checkpoints"),
    (ImproveRequest(checkpoint="{own}/c", demos="/elsewhere"), "datasets"),
    (ProfileRequest(checkpoint="other/weights"), "checkpoints"),
]


@pytest.mark.parametrize(("request_", "rule"), FOREIGN, ids=lambda one: str(one)[:40])
def test_a_stage_of_a_run_keeps_to_what_its_config_named(request_, rule, tmp_path):
    text = encode(request_).replace(b"{own}", str(tmp_path).encode())
    asked = msgspec.json.decode(text, type=type(request_))
    denied(lambda: rules_for(source(), config(), tmp_path).check_request(asked), rule)
    rules_for_request(source(), asked, tmp_path).check_request(asked)


def test_data_and_checkpoints_in_the_work_folder_are_the_runs_own(tmp_path):
    own = rules_for(source(own_config=False, environments=["*"]), config(), tmp_path)
    own.check_request(TrainRequest(dataset=str(tmp_path / "r" / "d"), init=str(tmp_path / "a")))
    own.check_request(CompareRequest(checkpoint=f"{tmp_path}/a", baseline=f"{tmp_path}/b"))
    outside = TrainRequest(dataset=f"{tmp_path}/r/../../elsewhere")
    denied(lambda: own.check_request(outside), "datasets")


def test_a_listed_folder_without_a_dataset_does_not_allow_to_download_one(tmp_path):
    listed = source(own_config=False, datasets=[str(tmp_path / "lab")])
    request = ExistingDataset(repo_id="other/data", root=str(tmp_path / "lab"), tasks=("a",))
    strict = rules_for_request(listed, request, tmp_path / "out")
    denied(lambda: strict.check_request(request), "datasets", "other/data")
    dataset(tmp_path / "lab")
    strict.check_request(request)


def test_a_link_out_of_the_work_folder_does_not_make_its_target_the_runs_own(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "runs" / "link").symlink_to(tmp_path / "elsewhere")
    own = rules_for(source(), config(), tmp_path / "runs")
    linked = TrainRequest(dataset=str(tmp_path / "runs" / "link"))
    denied(lambda: own.check_request(linked), "datasets")


def test_a_person_who_names_a_stages_folder_names_the_data_that_its_record_tells_of(tmp_path):
    elsewhere = dataset(tmp_path / "elsewhere")
    record: DatasetRecord = dataset_record(root=str(elsewhere))
    demos = finished_stage(tmp_path / "demos", ExpertDemos(), record)
    asked = TrainRequest(dataset=str(demos))
    typed = rules_for_request(source(), asked, tmp_path / "out")
    typed._checks.dataset(str(elsewhere))
    denied(lambda: typed._checks.dataset("/other"), "datasets")


def test_a_server_loads_what_its_manifest_names_and_nothing_else():
    own = Grants(checkpoints=("me/weights", "me/adapter"), plugins=("my_policy",))
    allowed = rules(own)
    allowed.check_served("me/weights", adapter="me/adapter", plugins=["my_policy"], task="Fold.")
    denied(lambda: allowed.check_served("other/weights"), "checkpoints")
    denied(lambda: allowed.check_served("me/weights", adapter="other/a"), "checkpoints")
    denied(lambda: allowed.check_served("me/weights", plugins=["evil"]), "plugins", "evil")
    denied(lambda: allowed.check_served("me/weights", task="stab it"), "tasks.forbidden_words")


def test_an_adapter_is_allowed_with_the_checkpoint_that_it_adapts(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    file = folder / "adapter_config.json"
    file.write_text('{"base_model_name_or_path": "other/base", "r": 8}')
    own = rules(Grants(folders=(str(tmp_path),)))
    checks = (
        lambda one: one.check_served("", adapter=str(folder)),
        lambda one: one.check_request(EvaluateRequest(checkpoint=str(folder))),
        lambda one: one.check_request(TrainRequest(dataset=f"{tmp_path}/d", init=str(folder))),
        lambda one: one.check_rollout(RolloutFacts(checkpoint=str(folder))),
    )
    granted = rules(Grants(folders=(str(tmp_path),), checkpoints=("other/base",)))
    named = rules(Grants(folders=(str(tmp_path),), checkpoints=(str(folder),)))
    for check in checks:
        denied(lambda check=check: check(own), "checkpoints", "other/base")
        check(granted)
        check(named)
    for text in (
        "{}",
        '{"base_model_name_or_path": null}',
        f'{{"base_model_name_or_path": "{folder}"}}',
    ):
        file.write_text(text)
        own.check_served(str(folder))
    for text in ("{", '{"base_model_name_or_path": 5}'):
        file.write_text(text)
        denied(lambda: own.check_served(str(folder)), "checkpoints", "does not say which")


def test_rules_that_are_kept_with_a_run_come_back_as_they_were(tmp_path):
    own = rules_for(source(), OWN["a command"], tmp_path)
    kept = msgspec.json.decode(msgspec.json.encode(stored(own)))
    assert restored(kept) == own
    assert restored(kept).digest == own.digest == kept["digest"]


@pytest.mark.parametrize(
    "change",
    [
        lambda kept: kept["constitution"].update(real_hardware=True),
        lambda kept: kept["constitution"]["caps"].update(steps=None),
        lambda kept: kept["grants"].update(plugins=["evil"]),
        lambda kept: kept.update(digest="0" * 64),
        lambda kept: kept.pop("digest"),
    ],
)
def test_kept_rules_that_were_changed_by_hand_are_denied(change, tmp_path):
    kept = stored(rules_for(source(), config(), tmp_path))
    change(kept)
    denied(lambda: restored(kept), "constitution", "were changed")


def test_kept_rules_of_another_schema_are_named():
    kept = {"digest": "x", "constitution": {"version": 7}}
    denied(lambda: restored(kept), "constitution", "constitution.version")


def test_the_file_is_no_part_of_the_digest():
    one = Rules(constitution=packaged(), source="/a.yaml")
    assert one.digest == Rules(constitution=packaged(), source="/b.yaml").digest
    assert one.digest != Rules(constitution=constitution(uploads=True)).digest
    assert one.digest != Rules(constitution=packaged(), grants=Grants(plugins=("x",))).digest


@settings(max_examples=200, deadline=None)
@given(
    text=st.text(min_size=1, max_size=12), number=st.integers(1, 10**9), cap=st.integers(1, 10**9)
)
def test_a_number_passes_exactly_up_to_its_cap(text, number, cap):
    limited = rules(caps={"steps": cap}, tasks={})
    asked = TrainRequest(dataset="/d", steps=number)
    granted = Rules(constitution=limited.constitution, grants=Grants(datasets=("/d",)))
    if number <= cap:
        granted.check_request(asked)
    else:
        denied(lambda: granted.check_request(asked), "caps.steps", str(number), str(cap))


@pytest.mark.parametrize("name", ["a[1]", "a*", "a?"])
def test_a_folder_whose_name_looks_like_a_pattern_is_only_itself(name, tmp_path):
    mine, other = tmp_path / name, tmp_path / "a1"
    for folder in (mine, other):
        folder.mkdir()
    mine_only = rules(Grants(folders=(str(mine),)), own_config=False)
    mine_only.check_request(TrainRequest(dataset=str(mine / "collect")))
    with pytest.raises(Denied, match="datasets"):
        mine_only.check_request(TrainRequest(dataset=str(other / "collect")))


def test_a_name_of_the_hub_is_not_the_runs_own_in_whatever_folder_it_is_asked(
    tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    strict = rules(Grants(folders=(str(tmp_path),)), own_config=False)
    with pytest.raises(Denied, match="datasets"):
        strict.check_request(ExistingDataset(repo_id="evil/data", tasks=("push",)))
    with pytest.raises(Denied, match="checkpoints"):
        strict.check_request(EvaluateRequest(checkpoint="evil/model"))


@pytest.mark.parametrize(
    "env",
    [
        {"type": "vlabench", "robot": "franka"},
        {"type": "isaaclab_arena", "hub_path": "nvidia/some-envs"},
    ],
)
def test_environments_with_the_name_of_an_arm_or_code_on_the_hub_need_no_edit(env, tmp_path):
    own = config(evaluate=EvaluatePlan(env=env))
    made = rules_for(source(), own, tmp_path)
    made.check_config(own)
    assert not made.uses_hardware(own)


def test_dashes_in_ones_own_flags_are_understood_as_lerobot_does(tmp_path):
    own = config(ladder=(Rung(name="a", extra_args=("--policy.my-key=3",)),))
    rules_for(source(), own, tmp_path).check_config(own)


@pytest.mark.parametrize(
    ("model", "is_allowed"),
    [
        ("openai:gpt-5", False),
        ("openai-chat:m@https://models.example.org/v1", False),
        ("openai-chat:m@http://127.0.0.1:8000/v1", True),
    ],
)
def test_a_model_on_another_machine_is_an_upload(model, is_allowed, tmp_path):
    own = config(propose=ProposePlan(model=model))
    rules_for(source(), own, tmp_path).check_config(own)
    strict = rules_for(source(own_config=False), own, tmp_path)
    if is_allowed:
        strict.check_config(own)
    else:
        with pytest.raises(Denied, match=r"uploads: propose\.model"):
            strict.check_config(own)


def test_a_run_that_may_start_no_stage_is_denied_before_it_begins(tmp_path):
    with pytest.raises(Denied, match="lefleet is not an allowed program"):
        rules_for(source(commands={}), config(), tmp_path).check_config(config())


def test_the_largest_number_of_a_growing_selection_counts(tmp_path):
    of = config(collect=DatasetSource(repo_id="a/b", episodes_per_task=(15, 29)))
    strict = rules_for(source(caps={"episodes_per_task": 28}), of, tmp_path)
    denied(
        lambda: strict.check_config(of),
        "caps.episodes_per_task",
        "collect.episodes_per_task is 29, above the limit of 28",
    )


@pytest.mark.parametrize(
    ("changes", "variable"),
    [({"device": "cuda:1"}, "CUDA_VISIBLE_DEVICES"), ({"track": ("wandb",)}, "WANDB_ERROR")],
)
def test_variables_that_trainings_need_are_looked_at_before_a_run_begins(changes, variable):
    few = rules(variables=["HF_HUB_OFFLINE", "TQDM_MININTERVAL"])
    few.check_config(config())
    with pytest.raises(Denied, match=f"variables: the environment variable {variable}"):
        few.check_config(config(**changes))
    rules().check_config(config(**changes))


def test_flags_of_wandb_are_looked_at_before_a_run_begins():
    commands = msgspec.to_builtins(packaged())["commands"]
    arguments = commands["lefleet.compat.train"]["arguments"]
    kept = {key: rule for key, rule in arguments.items() if not key.startswith("wandb.")}
    few = rules(commands=commands | {"lefleet.compat.train": {"arguments": kept}})
    few.check_config(config())
    denied(
        lambda: few.check_config(config(track=("wandb",))),
        "commands.lefleet.compat.train.arguments",
        "--wandb.enable=true is neither listed nor named",
    )
