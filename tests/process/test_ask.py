"""A program is asked for a report, and may hang, crash or chat."""

import sys

import pytest

from lefleet.process import NoReport, ask

pytestmark = pytest.mark.usefixtures("any_program")


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_the_last_line_is_the_report_whatever_was_printed_before():
    chat = python("print('loading'); print('[1, 2]')")
    assert ask(chat, list[int], 60.0) == [1, 2]


def test_a_program_that_hangs_is_killed():
    with pytest.raises(NoReport, match=r"did not answer within 0\.2 s"):
        ask(("sleep", "60"), list[int], 0.2)


@pytest.mark.parametrize(
    ("code", "words"),
    [
        ("import sys; print('no driver', file=sys.stderr); sys.exit(3)", "code 3: no driver"),
        ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "was killed by SIGSEGV"),
        ("print('{}')", "exited with code 0"),
    ],
)
def test_a_program_without_a_report_says_how_it_ended(code, words):
    with pytest.raises(NoReport, match=words):
        ask(python(code), list[int], 60.0)
