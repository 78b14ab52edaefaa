"""How fast receivers work."""

import pytest

from lefleet_client.transport.declarations import pause_s


@pytest.mark.parametrize(
    ("used_s", "passed_s", "expected_s"),
    [
        (0.0015, 0.0015, 0.0085),  # busy all the time
        (0.0015, 0.01, 0.0),
        (0.0015, 10.0, 0.0),
        (5.0, 5.0, 0.05),  # one costly message must not stop the others for long
    ],
)
def test_a_receiver_pauses_when_it_used_more_than_its_share(used_s, passed_s, expected_s):
    assert pause_s(used_s, passed_s) == pytest.approx(expected_s)
