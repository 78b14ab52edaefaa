"""What LeRobot's training prints."""

import pytest

from lefleet.records import CheckpointRecord, decode, encode
from lefleet.stages.train_log import (
    START_MARK,
    Bar,
    last_words,
    parse_bar,
    parse_metrics,
    read_curve,
    split_lines,
)
from tests.samples import checkpoint_record

LINE = (
    "INFO 2026-11-15 21:45:01 ot_train.py:595 step:{step} smpl:3K ep:48 epch:2.00 loss:{loss} "
    "grdn:31.187 lr:5.2e-04 updt_s:0.018 data_s:0.003 smp/s:3100"
)
BAR = "Training:  12%|█▏        | 120/1000 [00:05<00:40, 21.1step/s]"
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


def log_line(loss: object = 0.378, step: str = "50") -> str:
    return LINE.format(step=step, loss=loss)


def curve(lines, log_every: int = 50) -> list[tuple[int, float]]:
    return [(point.step, point.loss) for point in read_curve(lines, log_every)[0]]


def words(text: str, count: int = 3) -> str:
    return last_words(split_lines(text), count)


def test_metrics_of_a_log_line():
    assert parse_metrics(log_line()) == (0.378, 31.187, 5.2e-4)


@pytest.mark.parametrize("line", ["", BAR, "INFO the loss: it went down", "step: 5 loss: 3"])
def test_other_lines_have_no_metrics(line):
    assert parse_metrics(line) is None


def test_steps_and_remaining_time_of_a_bar():
    assert parse_bar(BAR) == Bar(120, 1000, "00:40")


def test_a_bar_that_knows_no_remaining_time_yet():
    line = "Training:   0%|          | 0/1000 [00:00<?, ?step/s]"
    assert parse_bar(line) == Bar(0, 1000, "?")


def test_a_bar_and_a_log_line_on_one_line_are_both_read():
    line = BAR + log_line()
    assert parse_bar(line) == Bar(120, 1000, "00:40")
    assert parse_metrics(line) == (0.378, 31.187, 5.2e-4)


def test_other_lines_have_no_bar():
    assert parse_bar(log_line()) is None


def test_bars_that_return_the_carriage_are_lines_of_their_own():
    assert split_lines(f"\r{BAR}\r{BAR}\nend\r\n") == ["", BAR, BAR, "end", ""]


def test_steps_are_counted_because_lerobot_abbreviates_them():
    lines = [log_line(0.5, "950"), BAR, log_line(0.4, "1K"), log_line(0.3, "1K")]
    assert curve(lines) == [(50, 0.5), (100, 0.4), (150, 0.3)]


def test_a_point_has_all_its_values():
    (point,) = read_curve([log_line()], 10)[0]
    assert (point.step, point.grad_norm, point.learning_rate) == (10, 31.187, 5.2e-4)


def test_what_came_after_the_checkpoint_that_was_resumed_is_dropped():
    first = [log_line(0.5), log_line(0.4), log_line(0.3)]
    resumed = [f"{START_MARK} 100", log_line(0.2), log_line(0.1)]
    assert curve([*first, *resumed]) == [(50, 0.5), (100, 0.4), (150, 0.2), (200, 0.1)]
    assert read_curve([*first, *resumed], 50)[1] == [100]


def test_a_resume_between_two_log_lines_counts_from_the_one_before():
    lines = [log_line(0.5), log_line(0.4), f"{START_MARK} 70", log_line(0.3)]
    assert curve(lines) == [(50, 0.5), (100, 0.3)]


def test_a_loss_that_is_no_number_leaves_a_record_that_can_be_read():
    points, _ = read_curve([log_line("nan"), log_line(0.2)], 50)
    record = checkpoint_record(curve=tuple(points))
    back = decode(encode(record), CheckpointRecord, "record.json")
    assert [(point.step, point.loss) for point in back.curve] == [(50, None), (100, 0.2)]


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
