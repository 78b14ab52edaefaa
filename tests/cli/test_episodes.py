"""label and lineage: on a dataset that was recorded while a real server answered."""

import json
from contextlib import closing

import pytest

from lefleet.actions.people import user_name
from lefleet.ledger import read_ledger
from lefleet.recording import Outcome, outcomes
from lefleet.server.observers import AuditLog, LineFile
from lefleet_client.stream import ActionStream, StreamSettings
from tests.client.transport.waiting import eventually
from tests.ledger.ledgers import REQUEST
from tests.recording import frames
from tests.samples import checkpoint_record, contract, dataset_record
from tests.server.serving import Bench, observation

TRAINED_ON = contract().dataset_digest


@pytest.fixture(scope="module")
def recording(tmp_path_factory, checkpoint_of, policy_of):
    """A folder with a recorded dataset and the audit file of the server; the policy's digest.

    Episode 0 has frames of a server; in episode 1 the robot fell back before the first chunk.
    """
    folder = tmp_path_factory.mktemp("recording")
    name = "act_environment"
    audit = AuditLog(LineFile(folder / "audit.jsonl"))
    policy = policy_of(name)
    with Bench(checkpoint_of(name), policy, {"observers": (audit,)}) as bench:
        robot = bench.robot("arm-7")
        digest = robot.ack.capabilities.digest
        names = robot.ack.capabilities.contract.action_names
        stream = ActionStream(robot, StreamSettings(fps=30), action_names=names)
        stream.start()
        dataset = frames.create(folder / "rollout_a", "state")
        labels = [Outcome(success=True, progress=1.0, source="environment"), None]
        dataset.attach(executed=lambda: stream.executed, outcome=lambda: labels.pop(0))
        seen = observation(policy, 0)
        stream.resume()
        for frame in range(20):
            stream.notify(seen)
            eventually(lambda: stream.status().queued)
            stream.next_action()
            dataset.add_frame(frames.frame_of(0, frame, "state"))
        dataset.save_episode()
        stream.pause()
        stream.resume()
        stream.next_action()
        dataset.add_frame(frames.frame_of(1, 0, "state"))
        dataset.save_episode()
        dataset.finalize()
        stream.stop()
    audit.close()
    return folder, digest


@pytest.fixture
def workdir(recording, ledger_with):
    return ledger_with(recording[1])


@pytest.fixture
def ledger_with(tmp_path):
    """A ledger whose run trained the checkpoint of this digest."""
    from lefleet.ledger import open_ledger
    from tests.loop.states import decision

    def make(digest: str):
        ledger = open_ledger(tmp_path / "runs")
        ledger.create_run("demo", {})
        for stage, record in (
            ("collect", dataset_record(digest=TRAINED_ON, root="/data")),
            ("train", checkpoint_record(digest=digest, path="/weights")),
        ):
            ledger.commit_stage(ledger.start_attempt("demo", 0, stage, REQUEST), record)
        judged = decision(0, "baseline", digest, candidate=digest)
        ledger.record_decision("demo", judged)
        ledger.close()
        return tmp_path / "runs"

    return make


def lineage(lefleet, *arguments) -> dict:
    code, out, err = lefleet("lineage", *map(str, arguments), "--json")
    assert (code, err) == (0, "")
    return json.loads(out)


def test_provenance_joins_the_servers_audit_lines(recording, lefleet, workdir):
    folder, digest = recording
    found = lineage(lefleet, f"{folder}/rollout_a:0", "--audit", folder / "audit.jsonl")
    (session,) = found["sessions"]
    assert (session["digest"], session["frames"], found["frames"]) == (digest, 20, 20)
    assert session["not_audited"] == []
    assert [line["seq_id"] for line in session["audit"]] == session["seq_ids"]
    assert {line["session_id"] for line in session["audit"]} == {session["session_id"]}
    assert {(line["result"], line["client_id"]) for line in session["audit"]} == {
        ("answered", "arm-7")
    }


def test_a_frame_leads_to_its_request_checkpoint_data_and_decision(recording, lefleet, workdir):
    folder, digest = recording
    audit = folder / "audit.jsonl"
    found = lineage(lefleet, f"{folder}/rollout_a:0", "--frame", 7, "--audit", audit)
    (session,), (checkpoint,) = found["sessions"], found["checkpoints"]
    assert found["frame"]["frame_index"] == 7
    assert session["seq_ids"] == [found["frame"]["seq_id"]]
    assert [line["seq_id"] for line in session["audit"]] == session["seq_ids"]
    assert (checkpoint["checkpoint"], checkpoint["path"]) == (digest, "/weights")
    assert (checkpoint["run"], checkpoint["cycle"]) == ("demo", 0)
    assert checkpoint["decision"]["decision"] == "baseline"
    assert [one["digest"] for one in checkpoint["datasets"]] == [TRAINED_ON]
    assert found["outcome"]["success"] is True


def test_a_person_reads_the_same(recording, lefleet, workdir):
    folder, digest = recording
    audit = str(folder / "audit.jsonl")
    code, out, _ = lefleet("lineage", f"{folder}/rollout_a:0", "--audit", audit)
    assert code == 0
    assert "outcome      success, progress 100% (environment, " in out
    assert "frames       20: 20 of a server, 0 fallback\n" in out
    assert "audit        " in out
    assert f"checkpoint {digest[:12]}: cycle 0 of run demo, /weights\n" in out
    assert f"dataset {TRAINED_ON[:12]}: " in out
    _, out, _ = lefleet("lineage", f"{folder}/rollout_a:0", "--frame", "0")
    assert "frame 0      step " in out
    _, out, _ = lefleet("lineage", f"{folder}/rollout_a:1")
    assert "frames       1: 0 of a server, 1 fallback\n" in out
    assert "outcome      no label\n" in out


def test_a_checkpoint_that_the_ledger_does_not_know(recording, lefleet):
    folder, digest = recording
    code, out, _ = lefleet("lineage", f"{folder}/rollout_a:0")
    assert code == 0
    assert f"checkpoint {digest[:12]}: not in this ledger\n" in out


def test_digests_of_checkpoints_and_datasets(recording, lefleet, workdir):
    _, digest = recording
    assert lineage(lefleet, digest[:8])["checkpoints"][0]["checkpoint"] == digest
    found = lineage(lefleet, TRAINED_ON)
    assert [one["root"] for one in found["datasets"]] == ["/data"]
    assert [one["checkpoint"] for one in found["checkpoints"]] == [digest]
    code, out, _ = lefleet("lineage", TRAINED_ON[:8])
    assert code == 0
    assert out.startswith(f"dataset {TRAINED_ON[:12]}: ")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{root}:2"], "has no episode 2. It has 2 episodes."),
        (["{root}:0", "--frame", "20"], "frame: episode 0 has no frame 20. It has 20 frames."),
        (["{root}:0", "--audit", "none"], "audit: none cannot be read: No such file"),
        (["none:0"], "/none does not exist."),
        (["0123456789"], "knows no checkpoint and no dataset 0123456789"),
        (["demo"], "demo is neither DATASET:NUMBER nor at least 6 characters of a digest."),
        (["0123456789", "--frame", "1"], "frame, audit: they belong to an episode."),
    ],
)
def test_what_is_unknown_is_a_sentence(recording, lefleet, arguments, message):
    root = str(recording[0] / "rollout_a")
    code, out, err = lefleet("lineage", *(one.replace("{root}", root) for one in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err


def test_an_ambiguous_digest_names_both(lefleet, ledger_with):
    ledger_with(TRAINED_ON[:8] + "0" * 56)
    code, _, err = lefleet("lineage", TRAINED_ON[:8])
    assert code == 2
    assert "is ambiguous" in err


def test_an_episode_is_labelled_and_the_label_taken_back(recording, lefleet):
    root = recording[0] / "rollout_a"
    code, out, _ = lefleet("label", str(root), "1", "failure", "--note", "it slipped")
    assert code == 0
    assert out.startswith("episode 1: failure (command ")
    assert out.endswith("): it slipped\n")
    assert outcomes(root)[1].success is False
    code, out, _ = lefleet("label", str(root), "1", "success", "--json")
    assert json.loads(out)["counts"]["success"] is True
    for counts in ("failure", "no label"):
        code, out, _ = lefleet("label", str(root), "1", "undo")
        assert (code, out.split(": ", 1)[1].startswith(counts)) == (0, True)


def test_a_label_reaches_the_ledger_where_there_is_one(recording, lefleet, workdir, tmp_path):
    root = recording[0] / "rollout_a"
    lefleet("label", str(root), "1", "failure", "--note", "it slipped")
    code, out, _ = lefleet("label", str(root), "1", "undo", "--json", "--workdir", str(workdir))
    assert (code, json.loads(out)["counts"]) == (0, None)
    with closing(read_ledger(workdir)) as ledger:
        rows = ledger.labels.history(str(root), 1)
    assert [(row.is_undo, row.success, row.source, row.who) for row in rows] == [
        (True, None, "command", user_name()),
        (False, False, "command", user_name()),
    ]
    assert lefleet("label", str(root), "1", "success", "--workdir", "none")[0] == 0
    lefleet("label", str(root), "1", "undo", "--workdir", "none")
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{root}", "2", "success"], "has no episode 2: it has episodes 0 to 1."),
        (["{root}", "0", "maybe"], "maybe is not a choice"),
        (["{root}", "1", "undo"], "has no label of episode 1 to take back"),
        (["{root}/..", "0", "success"], "is not a LeRobotDataset"),
        (["none", "0", "undo"], "/none does not exist."),
    ],
)
def test_what_cannot_be_labelled_is_a_sentence(recording, lefleet, arguments, message):
    root = str(recording[0] / "rollout_a")
    code, out, err = lefleet("label", *(one.replace("{root}", root) for one in arguments))
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert message in err
