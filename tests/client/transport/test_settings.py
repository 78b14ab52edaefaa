"""What settings can say, and which are refused."""

import msgspec
import pytest

from lefleet_client.transport import (
    BadSettings,
    ZenohSettings,
    ZenohTransport,
)
from lefleet_client.transport.settings import zenoh_config
from lefleet_client.wire import MAX_MESSAGE_BYTES


def test_the_measured_settings_reach_zenoh():
    config = zenoh_config(ZenohSettings(connect=("tcp/localhost:1",), open_timeout_s=1.5))
    found = {
        path: msgspec.json.decode(config.get_json(path))
        for path in (
            "scouting/multicast/enabled",
            "transport/link/tx/lease",
            "transport/link/tx/queue/size/interactive_high",
            "connect/timeout_ms",
            "transport/unicast/open_timeout",
            "transport/link/rx/max_message_size",
            "transport/shared_memory/transport_optimization/message_size_threshold",
        )
    }
    assert list(found.values()) == [False, 1000, 16, 1500, 1500, MAX_MESSAGE_BYTES, 65536]
    retry = msgspec.json.decode(config.get_json("connect/retry"))
    assert (retry["period_init_ms"], retry["period_max_ms"]) == (100, 250)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        ({}, "connect"),
        ({"connect": ["tcp/localhost:1"], "listen": ["tcp/localhost:2"]}, "listen"),
        ({"connect": ["tls/h:1"]}, "connect"),
        ({"mode": "peer", "listen": ["quic/h:1"]}, "listen"),
        ({"mode": "router"}, "listen"),
        ({"mode": "router", "connect": ["tcp/localhost:1"]}, "listen"),
        ({"connect": ["tcp/localhost:1"], "tls": {"ca": "x", "cert": "x", "key": "x"}}, "connect"),
        ({"connect": ["tls/h:1"], "tls": {"ca": "x", "cert": "x", "key": "x"}}, r"tls\.ca"),
        ({"connect": ["nonsense"]}, "connect"),
        ({"connect": ["tcp/localhost:1"], "extra": {"no/such/thing": 1}}, "no/such/thing"),
    ],
    ids=str,
)
def test_settings_that_cannot_work_name_the_field(settings, field):
    with pytest.raises(BadSettings, match=f"^{field}: "):
        ZenohTransport.open(msgspec.convert(settings, ZenohSettings))


@pytest.mark.parametrize("endpoint", ["127.0.0.1:7447", "localhost", "tcp/localhost"])
def test_what_is_no_endpoint_is_named_with_an_example(endpoint):
    with pytest.raises(
        BadSettings, match=f"connect: '{endpoint}' is not an endpoint. Write it like tls/"
    ):
        ZenohTransport.open(ZenohSettings(connect=(endpoint,)))


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp/10.0.0.5:7447",
        "tcp/0.0.0.0:7447",
        "tcp/[::]:7447",
        "udp/10.0.0.5:7447",
        "ws/robots.example:80",
        "tcp/localhost.example:1",
        "tcp/127.0.0.1.example:1",
        "tcp/10.0.0.5:7447#so_sndbuf=127.0.0.1:1",
        "tcp/10.0.0.5:7447?rel=1",
        "serial/dev/ttyUSB0",
    ],
)
@pytest.mark.parametrize("side", ["connect", "listen"])
def test_beyond_this_machine_only_what_is_encrypted_is_accepted(endpoint, side):
    settings = ZenohSettings(mode="peer", **{side: (endpoint,)})
    with pytest.raises(BadSettings, match=f"^{side}: ") as caught:
        ZenohTransport.open(settings)
    for word in (repr(endpoint), "tls/", "lefleet certs", "--insecure"):
        assert word in str(caught.value)
    assert settings.is_insecure
    zenoh_config(msgspec.structs.replace(settings, insecure=True))


@pytest.mark.parametrize(
    "endpoint",
    [
        "tcp/127.0.0.1:0",
        "tcp/127.9.9.9:7447",
        "tcp/[::1]:7447",
        "tcp/localhost:7447",
        "udp/localhost:7447#iface=lo",
        "unixsock-stream//tmp/zenoh.sock",
    ],
)
def test_on_this_machine_nothing_needs_to_be_encrypted(endpoint):
    settings = ZenohSettings(mode="peer", listen=(endpoint,))
    zenoh_config(settings)
    assert not settings.is_insecure


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("connect/endpoints", ["tcp/10.0.0.5:7447"]),
        ("listen/endpoints/peer", ["tcp/10.0.0.5:7447"]),
        ("/listen/endpoints", ["tcp/10.0.0.5:7447"]),
        ("connect", {"endpoints": ["tcp/10.0.0.5:7447"]}),
    ],
)
def test_endpoints_are_not_hidden_among_zenohs_own_settings(path, value):
    extra = {path: value}
    with pytest.raises(BadSettings, match="give endpoints as connect and listen"):
        ZenohTransport.open(ZenohSettings(connect=("tcp/localhost:1",), extra=extra))
