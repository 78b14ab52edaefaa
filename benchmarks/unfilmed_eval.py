"""`lerobot-eval` that films nothing; takes its flags.

LeRobot always films the first ten episodes of every task. Without that, a comparison shows how
fast episodes are simulated, not how fast they are rendered.
"""

from typing import Any

from lerobot.scripts import lerobot_eval

_eval_policy_all = lerobot_eval.eval_policy_all


def _without_films(**settings: Any) -> Any:
    return _eval_policy_all(**{**settings, "max_episodes_rendered": 0})


if __name__ == "__main__":
    lerobot_eval.eval_policy_all = _without_films
    lerobot_eval.main()
