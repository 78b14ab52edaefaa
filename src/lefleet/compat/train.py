"""`lerobot-train` with state data served from memory. Takes lerobot-train's flags."""

import logging
from typing import Any

from lerobot.scripts import lerobot_train

from lefleet.compat.memory import in_memory
from lefleet.compat.versions import is_known_lerobot


def main() -> None:
    if is_known_lerobot():
        make_datasets = lerobot_train.make_train_eval_datasets

        def make_in_memory(config: Any) -> Any:
            train, evaluation = make_datasets(config)
            served = in_memory(train)
            if served is not train:
                logging.info("State data is served from memory.")
            return served, evaluation

        lerobot_train.make_train_eval_datasets = make_in_memory
    lerobot_train.main()


if __name__ == "__main__":
    main()
