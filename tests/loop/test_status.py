"""What a run leaves for people."""

import csv

import msgspec

from lefleet.ledger import open_ledger
from lefleet.loop.status import write_summary
from lefleet.records import ExpertDemos
from tests.loop.states import config, decision, gate, record
from tests.samples import evaluation_record


def test_every_file_of_a_finished_run_is_there(tmp_path):
    ledger = open_ledger(tmp_path)
    ledger.create_run("r", msgspec.to_builtins(config()))
    for number, stages in enumerate((("train", "evaluate"), ("train", "evaluate", "gate"))):
        for stage in stages:
            made = record(number, stage)
            if stage == "evaluate":
                made = evaluation_record()
            ledger.commit_stage(ledger.start_attempt("r", number, stage, ExpertDemos()), made)
    ledger.record_decision("r", decision(0, "baseline", "c0"))
    ledger.record_decision("r", decision(1, "iterate", "c0", gate=gate()))
    write_summary(ledger, ledger.run("r"), tmp_path)
    assert {path.name for path in tmp_path.glob("*.png")} == {
        "success.png",
        "evidence_cycle_1.png",
    }
    with (tmp_path / "tasks.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(row["cycle"], row["task"], row["success_rate"]) for row in rows] == [
        ("0", "push", "0.75"),
        ("1", "push", "0.75"),
    ]
    status = msgspec.json.decode((tmp_path / "summary.json").read_bytes())
    assert status["cycles"][1]["gate"]["ended"] == "futile"
    assert status["cycles"][1]["tasks"]["push"]["episodes"] == 4
