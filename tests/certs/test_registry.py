"""Rules for names and hosts."""

from datetime import UTC, datetime, timedelta

import pytest

from lefleet.certs.registry import (
    IssuedCertificate,
    Registry,
    checked_hosts,
    require_free,
    require_holder,
)
from lefleet.errors import BadInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def certificate(role: str, name: str) -> IssuedCertificate:
    expires = NOW + timedelta(days=365)
    return IssuedCertificate(role=role, name=name, serial="1f", issued=NOW, expires=expires)


REGISTRY = Registry(certificates=(certificate("robot", "bob"), certificate("server", "gpu")))


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("arm 7", "'arm 7' may contain only .* Use arm-7"),
        ("a/b", "Use a-b"),
        ("---", "has no letter or digit"),
        ("", "has no letter or digit"),
        ("alive", "reserved word"),
        ("operator-ann", "begins with a role.*Write: lefleet certs operator ann"),
        ("robot-x", "begins with a role"),
        ("x" * 56, "1 characters too long"),
        ("Bob", "Bob differs from bob only in upper and lower case"),
        ("bob", "bob is a robot already. Names are unique over all roles. .*certs renew bob"),
    ],
)
def test_a_name_that_cannot_be_issued_is_refused_with_the_remedy(name, words):
    with pytest.raises(BadInput, match=words):
        require_free(REGISTRY, "operator", name, NOW)


def test_a_name_fits_a_certificate_with_its_role():
    require_free(REGISTRY, "operator", "x" * 55, NOW)
    require_free(REGISTRY, "robot", "x" * 58, NOW)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("bop", "there is no 'bop'. Did you mean bob?"),
        ("robot-bob", "Did you mean bob?"),
        ("something", "See: lefleet certs list"),
    ],
)
def test_an_unknown_name_is_refused_with_a_near_one(name, words):
    with pytest.raises(BadInput, match=words.replace("?", r"\?")):
        require_holder(REGISTRY, name)


@pytest.mark.parametrize(
    "host",
    [
        "tls/10.0.0.5:7447",
        "10.0.0.5:7447",
        "10.0.0.256",
        "[::1]",
        "*.lab",
        "-x",
        "gpu..lab",
        "gpü",
        "",
        "a" * 64,
        ".".join(["a" * 60] * 5),
        "0.0.0.0",
        "::",
    ],
)
def test_a_host_that_nobody_could_connect_to_is_refused(host):
    with pytest.raises(BadInput, match="host: "):
        checked_hosts([host])


def test_hosts_are_kept_once_and_this_machine_is_always_among_them():
    assert checked_hosts(["gpu.lab", "10.0.0.5", "127.0.0.1", "fe80::1", "gpu.lab"]) == (
        "gpu.lab",
        "10.0.0.5",
        "127.0.0.1",
        "fe80::1",
        "localhost",
    )
    with pytest.raises(BadInput, match=r"host: missing.*--host localhost"):
        checked_hosts([])
