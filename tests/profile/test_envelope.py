"""From the file beside the weights to the warning that an operator reads."""

import shutil
import time

import pytest
from rich.console import Console

from lefleet.cli.fleet_view import FleetView, tables
from lefleet.policy import load_policy
from lefleet.queries.fleet import FleetFound, fleet_status
from lefleet.records import encode
from lefleet.records.profile import ENVELOPE_FILE
from lefleet.stages.digest import checkpoint_digest
from lefleet.testbed.relay import Relay
from lefleet_client import RemotePolicy
from lefleet_client.remote import discover_robots, example_observation
from lefleet_client.stream import ActionStream, StreamSettings
from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.cli.child import reserved_port
from tests.policy import tiny
from tests.samples import envelope_record
from tests.server.serving import serving

ENVELOPE_MS = 40.0


@pytest.fixture
def folder(checkpoint_of, tmp_path):
    return shutil.copytree(checkpoint_of("act_environment"), tmp_path / "policy")


def test_an_envelope_beside_the_weights_does_not_change_their_digest(folder):
    before = checkpoint_digest(folder)
    (folder / ENVELOPE_FILE).write_bytes(b"{}")
    (folder / f"{ENVELOPE_FILE}.partial").write_bytes(b"{")
    assert checkpoint_digest(folder) == before
    (folder / "other.json").write_bytes(b"{}")
    assert checkpoint_digest(folder) != before


def test_a_server_says_it(folder):
    assert load_policy(tiny.model(folder)).capabilities.envelope_ms == 0.0
    written = envelope_record(digest=checkpoint_digest(folder), envelope_ms=ENVELOPE_MS)
    (folder / ENVELOPE_FILE).write_bytes(encode(written))
    policy = load_policy(tiny.model(folder))
    assert policy.capabilities.envelope_ms == ENVELOPE_MS
    assert policy.warnings == ()


@pytest.mark.parametrize(
    ("content", "warning"),
    [
        (encode(envelope_record(digest="f" * 64)), "is that of another checkpoint, ffffffffffff"),
        (b"{", "cannot be used, run lefleet profile again: envelope.json: "),
        (b"\xff\xfe", "cannot be used"),
        (b'{"kind": "envelope_record"}', "missing required field"),
    ],
)
def test_one_that_cannot_be_believed_is_left_out_with_a_warning(folder, content, warning):
    (folder / ENVELOPE_FILE).write_bytes(content)
    policy = load_policy(tiny.model(folder))
    assert policy.capabilities.envelope_ms == 0.0
    assert warning in policy.warnings[-1]


@pytest.mark.parametrize(("delay_s", "is_warned"), [(0.0, False), (0.2, True)])
def test_a_robot_outside_of_it_is_seen_in_fleet(folder, delay_s, is_warned):
    written = envelope_record(digest=checkpoint_digest(folder), envelope_ms=190.0)
    (folder / ENVELOPE_FILE).write_bytes(encode(written))
    policy = load_policy(tiny.model(folder))
    with reserved_port() as port:
        endpoint = f"tcp/127.0.0.1:{port}"
        node = ZenohTransport.open(ZenohSettings(mode="peer", listen=(endpoint,)))
    with node, serving(folder, policy, node), Relay(port, delay_s=delay_s) as relay:
        robot = RemotePolicy(f"tcp/127.0.0.1:{relay.port}", client_id="arm")
        contract = robot.ack.capabilities.contract
        stream = ActionStream(
            robot, StreamSettings(fps=contract.fps), action_names=contract.action_names
        )
        stream.start()
        stream.reset()
        stream.resume()
        try:
            until_s = time.monotonic() + 20
            while not (found := discover_robots(node)).robots and time.monotonic() < until_s:
                stream.notify(example_observation(contract))
                time.sleep(0.05)
        finally:
            stream.stop()
    console = Console(width=400)
    with console.capture() as shown:
        looked = FleetFound((), found)
        console.print(tables(FleetView(looked, fleet_status(looked, 0.0))))
    warning = "this checkpoint was shown to work up to 190 ms only (lefleet profile)"
    assert any(warning in one for one in stream.plan.warnings) == is_warned
    assert (warning in shown.get()) == is_warned
    assert "arm" in shown.get()
