"""The rules of a run: from the ledger, after a change only with a person's word."""

import msgspec
import pytest
import yaml

from lefleet.constitution import active, find, packaged, reinstated, restored, stored
from lefleet.errors import BadInput, Denied
from lefleet.ledger import open_ledger
from lefleet.loop.approvals import ApprovalQuestion
from lefleet.loop.rules import RunRules, begin_rules
from lefleet.loop.state import read_state
from lefleet.loop.steps import EndRun
from lefleet.records import ApprovalAnswer, ApprovalPlan, EvaluatePlan, EvaluateRequest, Rung
from tests.loop.states import config

ROBOT = {"type": "gym_manipulator", "robot.type": "so101_follower"}
NO = ApprovalAnswer(approved=False, who="anna", at=1.0, why="not today")
YES = ApprovalAnswer(approved=True, who="anna", at=1.0)


@pytest.fixture
def workdir(tmp_path):
    folder = tmp_path / "runs"
    (folder / "r").mkdir(parents=True)
    with reinstated():
        yield folder


def write_rules(workdir, **changes) -> None:
    fields = msgspec.to_builtins(packaged()) | changes
    (workdir / "constitution.yaml").write_text(yaml.safe_dump(fields))


class Ruled:
    """A run that has begun, and its rules in this process."""

    def __init__(self, workdir, of) -> None:
        self.ledger = open_ledger(workdir)
        rules = stored(begin_rules(workdir, of, None))
        self.ledger.create_run("r", msgspec.to_builtins(of), None, rules)
        self.rules = RunRules(self.ledger, workdir, self.ledger.run("r"), of)
        self.rules.install()

    @property
    def state(self):
        return read_state(self.ledger, self.ledger.run("r"))

    def review(self):
        return self.rules.review(self.state)

    def asked(self, question: ApprovalQuestion, answer: ApprovalAnswer) -> None:
        row = self.ledger.approvals.ask(
            "r",
            question.kind,
            question.subject,
            cycle=0,
            text=question.text,
            evidence=question.evidence,
            timeout_s=0.0,
            on_timeout="reject",
        )
        self.ledger.approvals.answer(row, answer)

    def steps_allowed(self) -> float:
        return restored(self.ledger.run("r").constitution).constitution.caps.steps


def ruled(workdir, **changes) -> Ruled:
    return Ruled(workdir, config(**changes))


def test_the_rules_of_the_ledger_are_installed(workdir):
    run = ruled(workdir)
    assert active() == run.rules.current == restored(run.ledger.run("r").constitution)
    assert (workdir / "r" / "constitution.json").exists()


def test_a_run_of_an_older_ledger_gets_the_rules_of_now(workdir):
    ledger = open_ledger(workdir)
    ledger.create_run("r", msgspec.to_builtins(config()))
    RunRules(ledger, workdir, ledger.run("r"), config()).install()
    assert restored(ledger.run("r").constitution) == active()


def test_nothing_is_asked_while_nothing_has_changed(workdir):
    write_rules(workdir)
    run = ruled(workdir)
    assert run.review() is None
    text = (workdir / "constitution.yaml").read_text()
    (workdir / "constitution.yaml").write_text(f"# a remark\n{text}")
    assert run.review() is None


def test_a_file_that_appears_or_changes_is_asked_about_once_and_says_what_changed(workdir):
    run = ruled(workdir)
    assert run.review() is None
    write_rules(workdir, caps={"steps": 7_000})
    question = run.review()
    assert question.kind == "constitution"
    assert any("steps" in one and "7000" in one for one in question.evidence["changes"])
    run.asked(question, NO)
    assert run.review() is None
    assert run.steps_allowed() != 7_000


def test_an_approved_change_holds_from_then_on(workdir):
    run = ruled(workdir)
    write_rules(workdir, caps={"steps": 7_000})
    run.asked(run.review(), YES)
    assert run.review() is None
    assert run.steps_allowed() == active().constitution.caps.steps == 7_000
    kinds = [one.kind for one in run.ledger.events("r")]
    assert kinds[-1] == "constitution_changed"


def test_with_auto_a_change_holds_at_once(workdir):
    run = ruled(workdir, approvals=ApprovalPlan(constitution="auto"))
    write_rules(workdir, caps={"steps": 7_000})
    assert run.review() is None
    assert run.steps_allowed() == 7_000


def test_a_change_that_forbids_the_run_denies_it(workdir):
    run = ruled(workdir, approvals=ApprovalPlan(constitution="auto"))
    write_rules(workdir, caps={"steps": 10})
    with pytest.raises(Denied, match=r"caps\.steps"):
        run.review()
    assert run.steps_allowed() != 10


@pytest.mark.parametrize("content", ["caps: [", "version: 99", "no_such_field: 1"])
def test_a_file_that_cannot_be_read_is_asked_about_even_with_auto(workdir, content):
    write_rules(workdir)
    run = ruled(workdir, approvals=ApprovalPlan(constitution="auto"))
    (workdir / "constitution.yaml").write_text(content)
    question = run.review()
    assert question.evidence["problem"]
    run.asked(question, NO)
    assert run.review() is None


def test_a_named_file_that_is_gone_is_asked_about(workdir, tmp_path):
    write_rules(workdir)
    named = tmp_path / "lab.yaml"
    (workdir / "constitution.yaml").rename(named)
    run = ruled(workdir, constitution=str(named))
    named.unlink()
    assert "lab.yaml" in run.review().evidence["problem"]


def test_a_run_that_names_a_missing_file_does_not_begin(workdir):
    with pytest.raises(BadInput, match="nowhere"):
        begin_rules(workdir, config(constitution="nowhere.yaml"), None)


def test_a_real_robot_is_denied_unless_the_constitution_allows_it(workdir):
    of = config(evaluate=EvaluatePlan(env=ROBOT))
    with pytest.raises(Denied, match="real_hardware"):
        begin_rules(workdir, of, None)
    write_rules(workdir, real_hardware=True, robots={"allowed": ["so101_follower"]})
    begin_rules(workdir, of, None)


def hardware(workdir, **plan) -> Ruled:
    write_rules(workdir, real_hardware=True, robots={"allowed": ["so101_follower"]})
    return ruled(workdir, evaluate=EvaluatePlan(env=ROBOT), approvals=ApprovalPlan(**plan))


MOVING = EvaluateRequest(checkpoint="c", env=ROBOT)


def test_before_a_real_robot_moves_a_person_is_asked_once(workdir):
    run = hardware(workdir)
    assert run.rules.moves_hardware
    question = run.rules.hardware(run.state, 0, MOVING)
    assert question.kind == "real_hardware"
    run.asked(question, YES)
    assert run.rules.hardware(run.state, 0, MOVING) is None


def test_a_rejected_robot_ends_the_run_with_the_reason(workdir):
    run = hardware(workdir)
    run.asked(run.rules.hardware(run.state, 0, MOVING), NO)
    end = run.rules.hardware(run.state, 0, MOVING)
    assert isinstance(end, EndRun)
    assert (end.state, end.reason) == (
        "stopped",
        "moving real hardware was rejected by anna: not today",
    )


def test_nobody_is_asked_in_simulation_or_with_auto(workdir):
    run = hardware(workdir, real_hardware="auto")
    assert run.rules.hardware(run.state, 0, MOVING) is None
    assert run.rules.hardware(run.state, 0, EvaluateRequest(checkpoint="c")) is None


def test_a_setting_of_the_environment_does_not_loosen_the_rules_of_a_run(workdir, monkeypatch):
    from tests.permissive import VALUE, VARIABLE

    monkeypatch.setenv(VARIABLE, VALUE)
    write_rules(workdir, caps={"steps": 10})
    with pytest.raises(Denied, match="caps"):
        begin_rules(workdir, config(ladder=(Rung(name="a", steps=11),)), None)
    write_rules(workdir, caps={"steps": 10**6})
    run = ruled(workdir)
    assert active() == run.rules.current
    assert find(workdir).path.endswith("constitution.yaml")


def test_a_constitution_that_a_config_names_may_only_forbid_more_than_the_owners(workdir, tmp_path):
    fields = msgspec.to_builtins(packaged())
    loose, strict = tmp_path / "loose.yaml", tmp_path / "strict.yaml"
    loose.write_text(yaml.safe_dump(fields | {"real_hardware": True}))
    strict.write_text(yaml.safe_dump(fields | {"caps": fields["caps"] | {"steps": 5000}}))
    begin_rules(workdir, config(constitution=str(loose)), None)
    write_rules(workdir)
    with pytest.raises(Denied, match=r"loose\.yaml allows more than .*real_hardware"):
        begin_rules(workdir, config(constitution=str(loose)), None)
    tighter = begin_rules(workdir, config(constitution=str(strict)), None)
    assert tighter.constitution.caps.steps == 5000
