"""The propose stage as a process of its own: killed, resumed, and without a trace of keys."""

import json
import os
import signal
from pathlib import Path

import pytest

from lefleet.errors import StageFailed
from lefleet.process import processes_marked
from lefleet.stages.run import STAGE_MARK, run_in_child
from tests.models.samples import FALLBACK, asking
from tests.models.server import Hangs, Says, ScriptedModel, Sends, candidate, obliging

KEY = "sk-planted-0123456789"
PATIENCE_S = 60.0


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
def test_a_stage_that_is_killed_while_it_waits_resumes_where_it_was(tmp_path, how):
    folder = tmp_path / "propose"
    turns = []

    def script(posed):
        turns.append(posed.form)
        return Hangs() if len(turns) == 2 else obliging(posed)

    def kill(_):
        if model.calls == 2:
            for pid, stage in processes_marked(STAGE_MARK).items():
                if stage == str(folder):
                    os.kill(pid, how)

    with ScriptedModel(script) as model:
        request = asking(model.name, timeout_s=PATIENCE_S)
        with pytest.raises(StageFailed, match=how.name):
            run_in_child(request, folder, kill)
        assert not (folder / "record.json").exists()
        record = run_in_child(request, folder)
    assert turns == ["CandidatesAnswer", "ScoresAnswer", "ScoresAnswer", "CandidateAnswer"]
    assert record.proposal.why == "refined"
    assert (record.input_tokens, record.output_tokens) == (300, 60)


def echoing(posed):
    """A server that repeats the key wherever it can."""
    heard = posed.headers["authorization"]
    if posed.form == "CandidatesAnswer":
        action = candidate("demonstrations", {"push": 9}, f"you sent {heard}")
        unknown = candidate("demonstrations", {heard: 9})
        return Says({"candidates": [action, unknown, candidate(heard, {})]})
    body = json.dumps({"error": {"message": heard, "code": heard}, heard: heard}).encode()
    return Sends(401, body, {"X-Request-Id": heard})


@pytest.mark.parametrize(
    "script", [echoing, lambda posed: Sends(401, posed.headers["authorization"].encode())]
)
def test_a_key_is_in_no_file_no_output_and_no_command_line(tmp_path, monkeypatch, capfd, script):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "console")
    commands = set()

    def look(_):
        for entry in Path("/proc").glob("[0-9]*/cmdline"):
            try:
                commands.add(entry.read_bytes())
            except OSError:
                continue

    with ScriptedModel(script) as model:
        record = run_in_child(asking(model.name), tmp_path / "propose", look)
    assert KEY in model.posed[0].headers["authorization"]
    assert any(b"propose" in command for command in commands)
    assert not any(KEY.encode() in command for command in commands)
    assert KEY not in repr(record)
    shown = capfd.readouterr()
    assert KEY not in shown.out + shown.err
    files = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert {"request.json", "record.json", "answers.jsonl", "log.txt"} <= {p.name for p in files}
    assert "chat scripted" in (tmp_path / "propose" / "log.txt").read_text()
    assert [path for path in files if KEY.encode() in path.read_bytes()] == []


def test_a_server_that_fails_leaves_nothing_in_the_log(tmp_path):
    with ScriptedModel(Sends(200, b'{"choices": [{"message": "\x1b[2J"}]}')) as model:
        record = run_in_child(asking(model.name), tmp_path / "propose")
    assert record.proposal == FALLBACK
    assert (tmp_path / "propose" / "log.txt").read_text() == ""
