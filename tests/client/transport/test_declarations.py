"""How fast receivers work."""

import threading

import pytest

from lefleet_client.transport import OBSERVATION, declarations
from lefleet_client.transport.declarations import pause_s
from tests.client.transport.networks import BetweenPeers, OverRouter
from tests.client.transport.waiting import until


@pytest.mark.parametrize(
    ("wasted_s", "passed_s", "expected_s"),
    [
        (0.0015, 0.0015, 0.006),  # busy all the time
        (0.0015, 0.01, 0.0),
        (0.0015, 10.0, 0.0),
        (5.0, 5.0, 0.01),  # one costly message must not stop the others for long
    ],
)
def test_a_receiver_pauses_when_it_wasted_more_than_its_share(wasted_s, passed_s, expected_s):
    assert pause_s(wasted_s, passed_s) == pytest.approx(expected_s)


@pytest.mark.parametrize(
    ("new_network", "is_useful", "is_pausing"),
    [(BetweenPeers, True, False), (BetweenPeers, False, True), (OverRouter, False, False)],
)
def test_a_node_that_listens_pauses_for_messages_of_no_use_only(
    monkeypatch, new_network, is_useful, is_pausing
):
    """Many robots with large images take more than its share, and none of them waits for it. Over
    the link from a router, all robots would wait for a flood of one."""
    pauses = []
    monkeypatch.setattr(declarations, "pause_s", lambda *_: pauses.append(1) or 0.0)
    network, sizes, is_done = new_network(), [], threading.Event()
    try:
        sender, receiver = network.node(), network.node()

        def take(sample) -> bool:
            sizes.append(len(sample.payload))
            if len(sizes) == 20:
                is_done.set()
            return is_useful

        receiver.subscribe("a", take)
        network.settle()
        publisher = sender.publisher("a", OBSERVATION)
        until(lambda: publisher.put(bytes(4 << 20), b""), is_done)
    finally:
        network.close()
    assert bool(pauses) is is_pausing
