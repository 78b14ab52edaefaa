"""Every record for a person."""

import pytest

from lefleet.cli.display import show_record
from tests.samples import (
    checkpoint_record,
    dataset_record,
    evaluation_record,
    loss_point,
    mix_record,
)


def shown(capsys, record, folder="/runs/a") -> str:
    show_record(record, folder)
    return capsys.readouterr().out


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_a_dataset_is_shown_by_task(capsys):
    text = shown(capsys, dataset_record())
    assert text.startswith("3 episodes, 30 frames (expert)\n")
    assert ["push", "the", "puck", "to", "the", "goal", "2"] in rows(text)
    assert ["open", "the", "door", "1"] in rows(text)


def test_a_checkpoint_is_shown_with_its_loss(capsys):
    text = shown(capsys, checkpoint_record())
    assert text.startswith("act after 100 steps, loss 0.25\n")
    assert ["50", "0.5"] in rows(text)
    assert ["100", "0.25"] in rows(text)


def test_a_long_loss_curve_is_shown_in_few_rows_with_its_end(capsys):
    curve = tuple(loss_point(step, 0.5) for step in range(10, 1610, 10))
    text = shown(capsys, checkpoint_record(curve=curve))
    points = [row for row in rows(text) if row[1:] == ["0.5"]]
    assert len(points) == 8
    assert points[-1][0] == "1600"


def test_a_loss_that_was_no_number_is_shown_as_such(capsys):
    text = shown(capsys, checkpoint_record(curve=(loss_point(50, None), loss_point(100, 0.25))))
    assert ["50", "not", "a", "number"] in rows(text)


def test_a_single_episode_is_not_shown_as_several(capsys):
    assert shown(capsys, dataset_record(episodes=(4,))).startswith("1 episode, 30 frames")


def test_an_evaluation_is_shown_task_by_task(capsys):
    text = shown(capsys, evaluation_record())
    row = ["3/4", "=", "75%", "(10%", "to", "90%)"]
    assert ["push", *row] in rows(text)
    assert ["all", *row] in rows(text)
    assert "No videos: no graphics" in text


def test_videos_that_were_filmed_need_no_remark(capsys):
    assert "videos" not in shown(capsys, evaluation_record(videos_note=""))


def test_a_mix_is_shown_with_what_was_added(capsys):
    text = shown(capsys, mix_record())
    assert text.startswith("correct: a mix of 3 episodes, 1 of them self-generated\n")
    assert ["push", "2/5", "1"] in rows(text)
    assert "mixing_ratio 0.5 left out 1 of 2." in text


@pytest.mark.parametrize(
    "record", [dataset_record(), checkpoint_record(), evaluation_record(), mix_record()]
)
def test_the_file_of_a_record_is_named_last(capsys, record):
    assert shown(capsys, record).endswith("/runs/a/record.json\n")


def test_a_folder_with_brackets_in_its_name_is_shown_as_it_is(capsys):
    assert "/runs[old]/record.json" in shown(capsys, dataset_record(), "/runs[old]")


def test_a_task_text_with_brackets_is_shown_as_it_is(capsys):
    text = shown(capsys, dataset_record(tasks={"press [a] and [/b]": 1}))
    assert "press [a] and [/b]" in text
