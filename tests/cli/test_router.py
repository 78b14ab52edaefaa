"""A router as a command: robots and servers meet there."""

import signal

import pytest

from lefleet_client.transport import ZenohSettings, ZenohTransport
from tests.cli.child import Child, free_port
from tests.client.transport.waiting import Log


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_nodes_that_connect_to_it_see_each_other(tmp_path, number):
    endpoint = f"tcp/127.0.0.1:{free_port()}"
    settings = ZenohSettings(connect=(endpoint,))
    with Child("router", "--listen", endpoint, folder=tmp_path) as router:
        router.wait_for(lambda child: child.out)
        assert endpoint in router.out[0]
        seen = Log()
        with ZenohTransport.open(settings) as robot, ZenohTransport.open(settings) as server:
            robot.watch("test/*", seen.add)
            server.announce("test/a")
            seen.wait_for(("test/a", True))
        router.signal(number)
        assert router.end() == 0
        assert router.err == []


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--listen", "tls/127.0.0.1:0"], 2, "needs tls.ca, tls.cert and tls.key"),
        (["--listen", "tls/127.0.0.1:0", "--tls.ca", "c"], 2, "tls.cert, tls.key: missing"),
        (["--listen", "nonsense"], 2, "nonsense"),
    ],
)
def test_a_mistake_is_one_line(lefleet, arguments, code, words):
    found, out, err = lefleet("router", *arguments)
    assert (found, out) == (code, "")
    assert words in err
    assert err.count("\n") == 1
