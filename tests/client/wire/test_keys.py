"""Keys: names folded into segments, and back from the tree."""

import contextlib

import pytest
import zenoh
from hypothesis import given
from hypothesis import strategies as st

from lefleet_client.wire import (
    BadKey,
    ServiceKeys,
    matching_robots,
    matching_servers,
    parse_key,
    parse_robot_key,
    slug,
)

SERVICE = ServiceKeys("lerobot/pi0", "main", "fold shirts")
BASE = "@lefleet/lerobot-pi0/main/fold-shirts"


def test_the_tree():
    server = SERVICE.server("gpu 1")
    client = server.client("arm/7")
    assert [server.status, server.alive] == [
        f"{BASE}/s/gpu-1/{word}" for word in ("status", "alive")
    ]
    assert [client.session, client.obs, client.action, client.reset, client.alive] == [
        f"{BASE}/s/gpu-1/c/arm-7/{word}" for word in ("session", "obs", "action", "reset", "alive")
    ]


def test_wildcards_are_one_level_deep():
    assert SERVICE.server("a").any_client.obs == f"{BASE}/s/a/c/*/obs"


def test_servers_are_looked_for_under_any_or_all_of_their_names():
    assert matching_servers().status == "@lefleet/*/*/*/s/*/status"
    found = matching_servers("lerobot/pi0", "main", "fold shirts")
    assert (found.status, found.alive) == (f"{BASE}/s/*/status", f"{BASE}/s/*/alive")
    assert (
        matching_servers(service="fold", server="gpu 1").alive == "@lefleet/*/*/fold/s/gpu-1/alive"
    )
    assert matching_servers(model="m").alive == "@lefleet/m/*/*/s/*/alive"
    with pytest.raises(BadKey, match=r"^service: "):
        matching_servers(service="*")


def test_the_wildcard_of_another_program_does_not_see_the_tree():
    key = zenoh.KeyExpr(SERVICE.server("a").client("b").obs)
    assert not zenoh.KeyExpr("**").intersects(key)
    assert zenoh.KeyExpr(SERVICE.server("a").any_client.obs).intersects(key)


@pytest.mark.parametrize("name", ["", "/", "**", "漢字", "s", "c", "obs", "alive", "status"])
@pytest.mark.parametrize("segment", ["model", "revision", "service"])
def test_a_name_that_cannot_be_a_segment_is_refused_with_the_segment(name, segment):
    names = {"model": "m", "revision": "r", "service": "x", segment: name}
    with pytest.raises(BadKey, match=f"^{segment}: "):
        _ = ServiceKeys(**names).base


def test_server_and_client_names_are_checked_too():
    with pytest.raises(BadKey, match=r"^server: "):
        SERVICE.server("*")
    with pytest.raises(BadKey, match=r"^client: "):
        SERVICE.server("a").client("session")
    with pytest.raises(BadKey, match=r"^model: .* longer"):
        slug("x" * 256, "model")


@given(st.text(max_size=40))
def test_a_slug_is_a_valid_segment_that_stays_as_it_is(name):
    try:
        folded = slug(name, "model")
    except BadKey:
        return
    assert slug(folded, "model") == folded
    assert "/" not in str(zenoh.KeyExpr(folded))
    assert set(folded) <= set("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.-")


def test_a_key_is_taken_apart():
    parsed = parse_key(SERVICE.server("a").client("b").obs)
    assert (parsed.model, parsed.revision, parsed.service) == ("lerobot-pi0", "main", "fold-shirts")
    assert (parsed.server, parsed.client, parsed.word) == ("a", "b", "obs")
    assert parse_key(SERVICE.server("a").status).client == ""


@pytest.mark.parametrize(
    "key",
    [
        "",
        "a/b",
        f"{BASE}/s/*/status",
        f"{BASE}/s/a/obs",
        f"{BASE}/s/a/session",
        f"{BASE}/s/a/c/b/status",
        f"{BASE}/s/a/x/b/obs",
        f"{BASE}/s/a/c//obs",
        f"x/{BASE}/s/a/status",
        "lefleet/m/r/x/s/a/status",
    ],
)
def test_what_is_no_key_of_the_tree_is_refused(key):
    with pytest.raises(BadKey):
        parse_key(key)


@given(st.text(alphabet="@lefts/c*-obs", max_size=60))
def test_any_text_is_a_key_or_a_typed_error(text):
    for parse in (parse_key, parse_robot_key):
        with contextlib.suppress(BadKey):
            parse(text)


def test_what_a_robot_reports_has_keys_of_its_own():
    own = matching_robots("arm/7")
    base = "@lefleet/robots/arm-7"
    assert (own.status, own.alive) == (f"{base}/status", f"{base}/alive")
    every = matching_robots()
    assert (every.status, every.alive) == ("@lefleet/robots/*/status", "@lefleet/robots/*/alive")
    for key in (own.status, own.alive):
        assert parse_robot_key(key) == ("arm-7", key.rpartition("/")[2])
        with pytest.raises(BadKey):
            parse_key(key)
    for name in ("*", "status", "///", "x" * 256):
        with pytest.raises(BadKey, match=r"^client: "):
            matching_robots(name)


@pytest.mark.parametrize("model", ["robots", "@lefleet", "x"])
@pytest.mark.parametrize("revision", ["arm", "robots"])
def test_no_name_of_a_server_leads_to_the_keys_of_robots(model, revision):
    server = ServiceKeys(model, revision, "alive-status").server("robots")
    robots = matching_robots()
    for key in (server.status, server.alive, server.any_client.alive, server.any_client.obs):
        for every in (robots.status, robots.alive):
            assert not zenoh.KeyExpr(every).intersects(zenoh.KeyExpr(key))


@pytest.mark.parametrize(
    "key",
    [
        "",
        "robots/arm/status",
        "@lefleet/robots/*/status",
        "@lefleet/robots/arm",
        "@lefleet/robots/arm/obs",
        "@lefleet/robots//status",
        "@lefleet/robots/status/status",
        "@lefleet/robots/arm/x/status",
        "x/@lefleet/robots/arm/status",
        "@lefleet/robot/arm/status",
        "@lefleet/robots/a b/status",
        f"{BASE}/s/a/status",
    ],
)
def test_what_is_no_key_of_a_robot_is_refused(key):
    with pytest.raises(BadKey):
        parse_robot_key(key)
