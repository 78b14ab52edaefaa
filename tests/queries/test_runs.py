"""Every run in a line, one run whole and its cycles, from a real ledger."""

import time
from contextlib import closing

import msgspec
import pytest

from lefleet.errors import BadInput, Unknown
from lefleet.ledger import open_ledger, read_ledger
from lefleet.queries.cycles import cycle_detail, run_media, stage_log
from lefleet.queries.events import events
from lefleet.queries.run import run_detail
from lefleet.queries.runs import RunReader
from lefleet.queries.trouble import tail
from lefleet.records import ApprovalAnswer
from tests.cli.test_view import controlled
from tests.ledger.ledgers import REQUEST, execute
from tests.loop.states import config, decision, proposal, record
from tests.stages.test_child_output import TORCHCODEC


@pytest.fixture
def ledger(tmp_path):
    with closing(open_ledger(tmp_path)) as opened:
        yield opened


@pytest.fixture
def reader(ledger, tmp_path):
    return RunReader(lambda: ledger, tmp_path)


def begin(ledger, name: str) -> None:
    ledger.create_run(name, msgspec.to_builtins(config(name=name)))


def ask(ledger, name: str):
    asked = ledger.approvals.ask(
        name, "promote", "cycle 1", cycle=1, text="promote it", evidence={}, timeout_s=0.0,
        on_timeout="reject",
    )  # fmt: skip
    ledger.approvals.wait(name, "a person")
    return asked


def interrupt(tmp_path, name: str) -> None:
    """As if its controller had died some minutes ago."""
    execute(tmp_path, f"UPDATE run SET resumed_at = 1.0 WHERE id = '{name}'")


def test_runs_that_need_somebody_come_first_then_running_ones_each_newest_first(
    ledger, reader, tmp_path
):
    states = {"a": "finished", "b": "failed", "c": "stopped", "d": "denied"}
    for name in (*states, "waits", "dead", "busy"):
        begin(ledger, name)
    for name, state in states.items():
        ledger.set_run_state(name, state, f"reason of {name}")
    ask(ledger, "waits")
    interrupt(tmp_path, "dead")
    (tmp_path / "busy").mkdir()
    with controlled(tmp_path / "busy"):
        found = reader.runs()
    order = [(one.id, one.state) for one in found.items]
    assert order == [
        ("dead", "interrupted"), ("waits", "waiting"), ("d", "denied"), ("b", "failed"),
        ("busy", "running"), ("c", "stopped"), ("a", "finished"),
    ]  # fmt: skip
    assert (found.needing_person, found.running, found.ended) == (4, 1, 2)
    cards = {one.id: one for one in found.items}
    assert cards["waits"].headline == "asks whether to promote it"
    assert cards["b"].headline == "reason of b"
    assert [one.id for one in reader.runs(state="failed").items] == ["b"]
    second = reader.runs(offset=2, limit=2)
    assert [one.id for one in second.items] == ["d", "b"]
    assert second.total == 7


def test_a_run_is_read_again_only_after_its_next_event(ledger, reader):
    begin(ledger, "a")
    first = reader.facts("a").state
    assert reader.facts("a").state is first
    ledger.add_event("a", "knowledge_failed", {"error": "no space"})
    assert reader.facts("a").state is not first
    ledger.set_run_state("a", "finished", "done")
    assert reader.status("a").state == "finished"


def test_another_ledger_in_the_same_place_is_read_anew(tmp_path):
    folders = [tmp_path / name for name in ("old", "new")]
    for folder, state in zip(folders, ("finished", "failed"), strict=True):
        with closing(open_ledger(folder)) as ledger:
            begin(ledger, "a")
            ledger.set_run_state("a", state, "")
    ledgers = [read_ledger(folder) for folder in folders]
    reader = RunReader(lambda: ledgers[0], tmp_path)
    assert reader.status("a").state == "finished"
    del ledgers[0]
    assert reader.status("a").state == "failed"


def test_a_run_of_another_version_is_in_the_list_with_its_problem(ledger, reader):
    ledger.create_run("foreign", {"name": "foreign", "colour": "red"})
    (card,) = reader.runs().items
    assert (card.state, card.needs_person) == ("unreadable", True)
    assert "colour" in card.headline
    detail = run_detail(reader, "foreign")
    assert detail.trouble.kind == "unreadable"
    assert detail.flow == ()


def test_an_empty_work_folder_has_no_runs(tmp_path):
    with closing(read_ledger(tmp_path / "none")) as empty:
        found = RunReader(lambda: empty, tmp_path / "none").runs()
    assert (found.items, found.total, found.needing_person) == ((), 0, 0)
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(("offset", "limit"), [(-1, 5), (0, 0), (0, 201), (2**63, 1)])
def test_pages_are_limited(reader, offset, limit):
    with pytest.raises(BadInput):
        reader.runs(offset=offset, limit=limit)


def test_why_a_run_failed_with_the_last_lines_of_its_stage(ledger, reader, tmp_path):
    begin(ledger, "a")
    attempt = ledger.start_attempt("a", 0, "train", REQUEST)
    ledger.end_attempt(attempt, "failed", "no space left")
    ledger.set_run_state("a", "failed", "train of cycle 0: no space left")
    log = tmp_path / "a" / "cycle_0" / "train" / "log.txt"
    log.parent.mkdir(parents=True)
    lines = [f"line {number}" for number in range(50)]
    log.write_bytes("\n".join(lines).encode() + b"\n10%\r55%\r100%\n\xff torn")
    found = run_detail(reader, "a").trouble
    assert (found.kind, found.stage, found.cycle) == ("failed", "train", 0)
    assert found.title == "a failed in train of cycle 0"
    assert found.log_file == "a/cycle_0/train/log.txt"
    assert found.log[-2:] == ("100%", "\ufffd torn")
    assert "line 49" in found.log
    assert "line 10" not in found.log
    assert (found.command, found.may_resume) == ("lefleet resume a", True)
    assert found.remedy.startswith(f"Read {log}, correct the cause, then resume it")


def test_harmless_reports_do_not_fill_the_end_of_a_log(tmp_path):
    log = tmp_path / "log.txt"
    log.write_text(f"before\n{TORCHCODEC}Error: no space left\n")
    assert tail(log) == ("before", "Error: no space left")


def test_the_flow_shows_what_is_done_what_waits_and_what_comes(ledger, reader):
    begin(ledger, "a")
    for stage in ("collect", "train"):
        attempt = ledger.start_attempt("a", 0, stage, REQUEST)
        ledger.commit_stage(attempt, record(0, stage))
    flow = {one.name: one.state for one in run_detail(reader, "a").flow}
    assert flow == {
        "propose": "done", "collect": "done", "train": "done", "evaluate": "now",
        "decide": "next",
    }  # fmt: skip
    attempt = ledger.start_attempt("a", 0, "evaluate", REQUEST)
    ledger.commit_stage(attempt, record(0, "evaluate"))
    ask(ledger, "a")
    flow = {one.name: one.state for one in run_detail(reader, "a").flow}
    assert (flow["evaluate"], flow["decide"]) == ("done", "waits")
    trouble = run_detail(reader, "a").trouble
    assert (trouble.kind, trouble.may_resume) == ("answer", False)
    assert trouble.command == f"lefleet approve a --question={trouble.approval}"


def test_a_run_whose_question_was_answered_can_be_resumed(ledger, reader):
    begin(ledger, "a")
    asked = ask(ledger, "a")
    ledger.approvals.answer(asked, ApprovalAnswer(approved=True, who="anna", at=time.time()))
    trouble = run_detail(reader, "a").trouble
    assert (trouble.kind, trouble.may_resume, trouble.approval) == ("stopped", True, None)


def test_a_run_that_somebody_stopped_says_who(ledger, reader):
    begin(ledger, "a")
    ledger.request_stop("a", by="anna (token)")
    ledger.set_run_state("a", "stopped", "on request")
    assert run_detail(reader, "a").trouble.text.startswith("By anna (token), ")
    ledger.resume_run("a", by="carl")
    ledger.set_run_state("a", "stopped", "its constitution was rejected")
    assert run_detail(reader, "a").trouble.text == "its constitution was rejected"


def denied(ledger, name: str) -> None:
    ledger.add_event(name, "denied", {"rule": "caps", "reason": "too many", "remedy": ""})
    ledger.set_run_state(name, "denied", "caps: too many steps")


def complete(ledger, name: str, cycle: int, outcome: str = "baseline") -> None:
    """A whole cycle."""
    ledger.record_proposal(name, proposal(cycle, config(name=name)))
    for stage in ("collect", "train", "evaluate"):
        attempt = ledger.start_attempt(name, cycle, stage, REQUEST)
        ledger.commit_stage(attempt, record(cycle, stage))
    ledger.record_decision(name, decision(cycle, outcome, f"c{cycle}"))


def test_a_run_that_was_denied_before_a_stage_names_that_stage_and_cycle(ledger, reader):
    begin(ledger, "a")
    complete(ledger, "a", 0)
    ledger.record_proposal("a", proposal(1, config(name="a")))
    denied(ledger, "a")
    detail = run_detail(reader, "a")
    assert detail.card.cycle == 1
    assert detail.trouble.title == "a was denied by its constitution in collect of cycle 1"
    assert (detail.trouble.stage, detail.trouble.cycle) == ("collect", 1)
    assert {one.name: one.state for one in detail.flow} == {
        "propose": "done", "collect": "failed", "train": "next", "evaluate": "next",
        "gate": "next", "decide": "next",
    }  # fmt: skip


def test_a_cycle_whose_proposal_was_denied_is_the_one_that_is_shown(ledger, reader):
    """A stage of the cycle before was skipped: that is not what was denied."""
    begin(ledger, "a")
    complete(ledger, "a", 0)
    ledger.end_attempt(ledger.start_attempt("a", 0, "improve", REQUEST), "skipped", "no data")
    denied(ledger, "a")
    detail = run_detail(reader, "a")
    assert (detail.card.cycle, detail.trouble.cycle, detail.trouble.stage) == (1, 1, "propose")
    assert [one.state for one in detail.flow] == ["failed", *["next"] * 5]


def test_a_cycle_without_a_gate_has_no_evidence(ledger, reader):
    begin(ledger, "a")
    for stage in ("collect", "train", "evaluate"):
        attempt = ledger.start_attempt("a", 0, stage, REQUEST)
        ledger.commit_stage(attempt, record(0, stage))
    ledger.record_decision("a", decision(0, "baseline", "c0"))
    found = cycle_detail(reader, "a", 0)
    assert (found.verdict, found.evidence, found.gate, found.waits_for) == ("", None, None, None)
    assert [one.stage for one in found.stages] == ["collect", "train", "evaluate"]
    with pytest.raises(BadInput, match="no cycle 7"):
        cycle_detail(reader, "a", 7)


@pytest.mark.parametrize("name", ["../x.mp4", "x.txt", "..", "", "a/b.mp4", ".mp4/../x.mp4"])
def test_films_are_named_by_their_name_alone(ledger, reader, tmp_path, name):
    begin(ledger, "a")
    folder = tmp_path / "a" / "cycle_0" / "evaluate" / "videos"
    folder.mkdir(parents=True)
    for file in (folder / "x.mp4", folder.parent / "x.mp4", folder / "x.txt"):
        file.write_bytes(b"film")
    assert run_media(reader, "a", 0, "evaluate", "x.mp4").read_bytes() == b"film"
    with pytest.raises(BadInput):
        run_media(reader, "a", 0, "evaluate", name)


def test_a_link_out_of_the_folder_is_no_film(ledger, reader, tmp_path):
    begin(ledger, "a")
    folder = tmp_path / "a" / "cycle_0" / "gate" / "films"
    folder.mkdir(parents=True)
    secret = tmp_path / "secret.mp4"
    secret.write_bytes(b"secret")
    (folder / "x.mp4").symlink_to(secret)
    with pytest.raises(BadInput):
        run_media(reader, "a", 0, "gate", "x.mp4")


def test_logs_are_of_known_stages_only(ledger, reader):
    begin(ledger, "a")
    attempt = ledger.start_attempt("a", 0, "train", REQUEST)
    ledger.commit_stage(attempt, record(0, "train"))
    assert stage_log(reader, "a", 0, "train").lines == ()
    for stage in ("..", "train/../../..", "nothing"):
        with pytest.raises(BadInput):
            stage_log(reader, "a", 0, stage)
    with pytest.raises(Unknown):
        stage_log(reader, "nobody", 0, "train")


def test_a_missing_log_has_no_lines(tmp_path):
    assert tail(tmp_path / "none.txt") == ()


def test_events_are_paged_newest_first_and_filtered(ledger):
    begin(ledger, "a")
    for number in range(5):
        ledger.add_event("a", "knowledge_failed", {"error": f"error {number}"})
        ledger.start_attempt("a", number, "train", REQUEST)
    first = events(ledger, "a", limit=4)
    rest = events(ledger, "a", limit=100, before=first.next_before)
    assert len(first.items) + len(rest.items) == len(events(ledger, "a", limit=100).items)
    assert rest.next_before is None
    numbers = [one.id for one in (*first.items, *rest.items)]
    assert numbers == sorted(numbers, reverse=True)
    problems = events(ledger, "a", group="problems").items
    assert [one.text.rpartition(" ")[2] for one in problems] == ["4", "3", "2", "1", "0"]
    assert all(one.is_problem for one in problems)
    assert events(ledger, "a", group="stages").items[0].text == "train started"
