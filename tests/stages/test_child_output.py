"""Lines of a child's output: what is left of them when it has failed."""

import pytest

from lefleet.stages.child_output import last_lines, split_lines, without_decoder_report
from tests.stages.test_lerobot_train import BAR, log_line

TORCHCODEC = """\
WARNING:lerobot.utils.import_utils:Could not load libtorchcodec. Likely causes:
          1. FFmpeg is not properly installed in your environment. We support
             versions 4, 5, 6, 7, and 8, and we attempt to load libtorchcodec
          3. Another runtime dependency; see exceptions below.

        The following exceptions were raised as we tried to load libtorchcodec:

[start of libtorchcodec loading traceback]
FFmpeg version 8:
Traceback (most recent call last):
  File "torch/_ops.py", line 1503, in load_library
    ctypes.CDLL(path)
OSError: libavutil.so.60: cannot open shared object file: No such file or directory
[end of libtorchcodec loading traceback].
'torchcodec' is installed but cannot be loaded (see the error above). Falling back to 'pyav' \
as a default decoder.
"""
CONFIG = """\
INFO 2026-11-15 21:49:35 ot_train.py:241 {'batch_size': 64,
 'dataset': {'episodes': None,
             'root': '/demos'},
 'wandb': {'enable': False,
           'run_id': None}}
"""
FAILURE = """\
Traceback (most recent call last):
  File "lerobot/scripts/lerobot_train.py", line 235, in train
    cfg.validate()
FileExistsError: Output directory x already exists and resume is False.
"""
ERROR = "FileExistsError: Output directory x already exists and resume is False."


def words(text: str, count: int = 3) -> str:
    return last_lines(split_lines(text), count)


def test_bars_that_return_the_carriage_are_lines_of_their_own():
    assert split_lines(f"\r{BAR}\r{BAR}\nend\r\n") == ["", BAR, BAR, "end", ""]


def test_the_error_at_the_end_is_reported():
    assert words(FAILURE).endswith(ERROR)
    assert words(FAILURE, count=1) == ERROR


def test_lines_are_joined_in_order():
    assert words("one\ntwo\nthree\nfour") == "two | three | four"


@pytest.mark.parametrize(
    "noise", [TORCHCODEC, log_line(), f"\r{BAR}\r{BAR}", "\n \n", "x.py:3: UserWarning: old\n"]
)
def test_noise_after_the_error_does_not_hide_it(noise):
    assert words(f"{FAILURE}{noise}\n", count=1) == ERROR


@pytest.mark.parametrize(
    "noise",
    [TORCHCODEC, TORCHCODEC + TORCHCODEC, log_line(), CONFIG, f"\r{BAR}\r{BAR}", "\n \n"],
    ids=["torchcodec", "torchcodec twice", "metrics", "config", "bars", "nothing"],
)
def test_noise_alone_is_no_reason(noise):
    assert words(noise) == ""


def test_only_the_report_on_decoders_is_left_out_of_a_log():
    log = f"before\n{TORCHCODEC}{log_line()}\n{FAILURE}".splitlines()
    assert without_decoder_report(log) == ["before", log_line(), *FAILURE.splitlines()]


def test_a_report_on_decoders_without_an_end_hides_nothing():
    log = [*TORCHCODEC.splitlines()[:4], *FAILURE.splitlines()]
    assert without_decoder_report(log) == log
