import numpy as np

from lefleet.rollouts.policy import BatchPolicy
from lefleet.sim.encode import encode
from lefleet.stages.references import find_checkpoint


def test_an_action_depends_neither_on_the_neighbours_nor_on_the_row(checkpoint):
    """The claim behind resuming and pairing: an episode computes the same in any company."""
    policy = BatchPolicy(find_checkpoint(str(checkpoint), "checkpoint").path, "cpu")
    random = np.random.default_rng(0)
    observations = [encode(random.normal(0.3, 0.2, 39), "push") for _ in range(15)]
    policy.reset(0)
    together = policy.act(observations, ["t"] * 15)
    order = random.permutation(15)
    policy.reset(0)
    shuffled = policy.act([observations[i] for i in order], ["t"] * 15)
    assert np.array_equal(together[order], shuffled)
    policy.reset(0)
    alone = policy.act([observations[4]] * 15, ["t"] * 15)
    assert np.array_equal(alone[4], together[4])
