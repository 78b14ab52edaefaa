"""Worker process: reads batches from stdin, writes finished episodes to stdout."""

import os
import sys

import msgspec

from lefleet.process.pool import DONE
from lefleet.rollouts.engine import Acting, Engine
from lefleet.rollouts.messages import Batch


def main(device: str) -> None:
    # Libraries print; what belongs to the protocol goes to a copy of stdout that only we know.
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)

    def load_policy(checkpoint: str) -> Acting:
        from lefleet.rollouts.policy import BatchPolicy

        return BatchPolicy(checkpoint, device)

    engine = Engine(load_policy)
    for line in sys.stdin.buffer:
        for finished in engine.run(msgspec.json.decode(line, type=Batch)):
            answers.write(msgspec.json.encode(finished) + b"\n")
            answers.flush()
        answers.write(DONE + b"\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1])
