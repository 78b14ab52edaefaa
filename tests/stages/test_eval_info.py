"""eval_info.json: what is read, and which other content is refused."""

import json

import pytest

from lefleet.errors import BadInput
from lefleet.stages.eval_info import EpisodeOutcome, parse_eval_info, read_eval_info


def info(*tasks: dict, **further) -> bytes:
    return json.dumps({"per_task": tasks, **further}).encode()


def task(number: int = 0, **metrics) -> dict:
    metrics = {"successes": [True, False], "max_rewards": [1, 0.5]} | metrics
    return {"task_group": "libero_spatial", "task_id": number, "metrics": metrics}


def test_episodes_are_kept_by_task_in_their_order():
    found = parse_eval_info(info(task(3), task(10), overall={"pc_success": float("nan")}))
    assert found == {
        "libero_spatial-3": [EpisodeOutcome(True, 1.0), EpisodeOutcome(False, 0.5)],
        "libero_spatial-10": [EpisodeOutcome(True, 1.0), EpisodeOutcome(False, 0.5)],
    }


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "Expecting value"),
        (b'{"\xff"}', "codec can't decode"),
        (b"[" * 100_000, "recursion"),
        (b"[]", "Expected `object`, got `array`"),
        (b'{"per_episode": [{"seed": 0, "success": true}]}', "missing required field `per_task`"),
        (info(task(successes=[1, 0])), "Expected `bool`, got `int`"),
        (info(task(successes=[True])), "1 successes and 2 rewards of libero_spatial-0"),
        (info(task(), task()), "the task libero_spatial-0 twice"),
    ],
)
def test_other_content_is_refused_with_what_is_wrong(tmp_path, content, words):
    (tmp_path / "eval_info.json").write_bytes(content)
    with pytest.raises(BadInput, match=words) as refusal:
        read_eval_info(tmp_path / "eval_info.json", "success")
    assert "is not an eval_info.json of LeRobot 0.6.1" in str(refusal.value)
    assert "CSV" in refusal.value.remedy
