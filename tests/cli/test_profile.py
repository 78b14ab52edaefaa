"""lefleet profile as a user types it: what is refused, and what is shown."""

import pytest
from rich.console import Console

from lefleet.cli import display
from tests.samples import delay_cell, envelope_record, rate


def shown(capsys, monkeypatch, record, tmp_path) -> str:
    monkeypatch.setattr(display, "console", lambda: Console(width=80, highlight=False))
    display.show_record(record, tmp_path)
    return capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        (("--delays", "-5"), "delays"),
        (("--delays", "3000"), "delays"),
        (("--episodes", "0"), "episodes"),
        (("--jitter", "-1"), "jitter"),
        (("--margin", "0"), "margin"),
        (("--merge", "guess"), "merge"),
        (("--tasks", "pussh"), "Did you mean push"),
    ],
)
def test_a_bad_option_is_named_before_anything_starts(
    lefleet, checkpoint_of, tmp_path, arguments, problem
):
    folder = str(checkpoint_of("act_environment"))
    code, out, err = lefleet("profile", folder, *arguments)
    assert (code, out) == (2, "")
    assert problem in err
    assert not (tmp_path / "runs").exists()


def test_an_arm_of_ones_own_is_refused_with_what_fits(lefleet, checkpoint_of, tmp_path):
    code, out, err = lefleet("profile", str(checkpoint_of("act_images")), "--tasks", "push")
    assert (code, out) == (2, "")
    assert "checkpoint: the policy looks through observation.images" in err
    assert "drives the simulated robot, which can fail without harm: actions hand_x.vel" in err
    assert not (tmp_path / "runs").exists()


def test_a_checkpoint_that_does_not_exist_is_refused(lefleet):
    code, _, err = lefleet("profile", "no-such-run")
    assert code == 2
    assert "no-such-run" in err


def test_the_cells_fit_into_a_terminal(capsys, monkeypatch, tmp_path):
    text = shown(capsys, monkeypatch, envelope_record(), tmp_path)
    assert "envelope: round trips up to 57 ms (p95)" in text
    assert "60 episodes at each delay" in text
    assert "Up to 50 ms, success was shown to fall by 15 points at most." in text
    row = next(line for line in text.splitlines() if line.startswith(" 50 ms"))
    assert row.split()[2:6] == ["98%", "(0%", "to", "100%)"]
    assert row.split()[6:] == ["1/0", "-8.9", "0.0%", "57", "ms", "80", "ms"]


def test_no_delay_within_the_margin_is_said(capsys, monkeypatch, tmp_path):
    record = envelope_record(delay_ms=0.0, envelope_ms=7.0)
    text = " ".join(shown(capsys, monkeypatch, record, tmp_path).split())
    assert "At no delay was success shown to fall by 15 points at most." in text


def test_why_there_is_no_envelope_is_said(capsys, monkeypatch, tmp_path):
    record = envelope_record(
        delay_ms=0.0,
        envelope_ms=0.0,
        cells=(delay_cell(success=rate(0, 60)),),
        note="no episode succeeded at 0 ms: there is nothing to lose",
    )
    text = " ".join(shown(capsys, monkeypatch, record, tmp_path).split())
    assert text.startswith("no envelope")
    assert "Nothing was kept beside the weights: no episode succeeded at 0 ms" in text
