"""Folders of certificates: what they hold, who may read them, and what a kill leaves."""

import json
import stat
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from cryptography import x509

from lefleet.certs.authority import Authority
from lefleet.errors import BadInput

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DAY = timedelta(days=1)


@pytest.fixture
def folder(tmp_path):
    Authority.create(tmp_path / "certs", 3650, NOW)
    return tmp_path / "certs"


def files(folder: Path) -> dict[str, int]:
    """Every file and folder below, with its mode."""
    return {
        str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode)
        for path in folder.rglob("*")
    }


def access(path: Path) -> dict:
    return json.loads((path / "access.json").read_text())


def serial(folder: Path) -> str:
    return f"{x509.load_pem_x509_certificate((folder / 'cert.pem').read_bytes()).serial_number:x}"


def test_a_folder_holds_what_a_machine_needs_and_only_its_owner_may_read_keys(folder):
    with Authority(folder, NOW) as authority:
        authority.issue("server", "gpu", ["10.0.0.5"], 365)
        authority.issue("robot", "arm-7", [], 365)
    assert files(folder) == {
        ".gitignore": 0o644,
        ".lock": 0o600,
        "access.json": 0o644,
        "authority": 0o700,
        "authority/ca.key": 0o600,
        "authority/ca.pem": 0o644,
        "authority/registry.json": 0o600,
        "robot-arm-7": 0o700,
        "robot-arm-7/ca.pem": 0o644,
        "robot-arm-7/cert.pem": 0o644,
        "robot-arm-7/key.pem": 0o600,
        "server-gpu": 0o700,
        "server-gpu/access.json": 0o644,
        "server-gpu/ca.pem": 0o644,
        "server-gpu/cert.pem": 0o644,
        "server-gpu/key.pem": 0o600,
    }
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert access(folder) == access(folder / "server-gpu")
    assert access(folder) == {
        "version": 1,
        "servers": ["gpu"],
        "robots": ["arm-7"],
        "operators": [],
    }


def test_a_certificate_has_the_common_name_the_hosts_and_the_usages_of_its_role(folder):
    with Authority(folder, NOW) as authority:
        server = authority.issue("server", "gpu", ["10.0.0.5", "gpu.lab"], 365)
        authority.issue("operator", "ann", [], 30)
    assert server.hosts == ("10.0.0.5", "gpu.lab", "localhost", "127.0.0.1")
    described = {}
    for name in ("server-gpu", "operator-ann"):
        cert = x509.load_pem_x509_certificate((folder / name / "cert.pem").read_bytes())
        usage = cert.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        described[cert.subject.rfc4514_string()] = (
            sorted(one._name for one in usage),
            cert.not_valid_after_utc - NOW,
        )
    assert described == {
        "CN=server-gpu": (["clientAuth", "serverAuth"], 365 * DAY),
        "CN=operator-ann": (["clientAuth"], 30 * DAY),
    }
    own = x509.load_pem_x509_certificate((folder / "authority/ca.pem").read_bytes())
    basic = own.extensions.get_extension_for_class(x509.BasicConstraints)
    assert (basic.critical, basic.value.ca, basic.value.path_length) == (True, True, 0)


def test_renewing_replaces_the_key_and_keeps_the_hosts_and_the_access_list(folder):
    with Authority(folder, NOW) as authority:
        authority.issue("server", "gpu", ["10.0.0.5"], 365)
    key, listed = (folder / "server-gpu/key.pem").read_bytes(), access(folder)
    with Authority(folder, NOW + 300 * DAY) as authority:
        renewed = authority.renew("gpu", [], 365)
        assert renewed.expires == NOW + 665 * DAY
        assert renewed.hosts[0] == "10.0.0.5"
        assert authority.renew("gpu", ["10.0.0.6"], 365).hosts[0] == "10.0.0.6"
        newest = authority.registry.holders()[0]
    assert serial(folder / "server-gpu") == newest.serial
    assert (folder / "server-gpu/key.pem").read_bytes() != key
    assert access(folder) == access(folder / "server-gpu") == listed


def test_a_revoked_name_is_on_no_list_and_free_only_when_its_last_certificate_has_expired(folder):
    with Authority(folder, NOW) as authority:
        authority.issue("server", "gpu", ["10.0.0.5"], 365)
        authority.issue("robot", "arm-7", [], 100)
        authority.renew("arm-7", [], 10)
        assert authority.revoke("arm-7").revoked == NOW
        assert access(folder)["robots"] == access(folder / "server-gpu")["robots"] == []
        for action in (authority.revoke, lambda name: authority.renew(name, [], 365)):
            with pytest.raises(BadInput, match="arm-7 was revoked on 2026-01-01"):
                action("arm-7")
    with (
        Authority(folder, NOW + 99 * DAY) as authority,
        pytest.raises(BadInput, match=r"valid until 2026-04-11.*such as arm-7-2"),
    ):
        authority.issue("operator", "arm-7", [], 365)
    with Authority(folder, NOW + 100 * DAY) as authority:
        authority.issue("operator", "arm-7", [], 365)
    assert access(folder)["operators"] == ["arm-7"]


def test_a_certificate_does_not_outlive_its_authority(folder):
    with Authority(folder, NOW + 3600 * DAY) as authority:
        assert authority.issue("robot", "arm-7", [], 365).expires == NOW + 3650 * DAY
    with (
        Authority(folder, NOW + 3650 * DAY) as authority,
        pytest.raises(BadInput, match="expired on 2035-12-30"),
    ):
        authority.issue("robot", "arm-8", [], 365)


def test_servers_whose_folder_was_moved_away_are_named(folder):
    with Authority(folder, NOW) as authority:
        authority.issue("server", "gpu", ["10.0.0.5"], 365)
        authority.issue("server", "hub", ["10.0.0.6"], 365)
        (folder / "server-hub").rename(folder.parent / "elsewhere")
        authority.issue("robot", "arm-7", [], 365)
        assert authority.servers() == (["server-gpu"], ["server-hub"])


def test_commands_at_the_same_time_wait_for_each_other(folder):
    names = [f"arm-{number}" for number in range(12)]

    def issue(name: str) -> None:
        with Authority(folder, NOW) as authority:
            authority.issue("robot", name, [], 365)

    with ThreadPoolExecutor(len(names)) as pool:
        list(pool.map(issue, names))
    assert access(folder)["robots"] == sorted(names)


def test_a_damaged_authority_is_refused(folder):
    key = folder / "authority/ca.key"
    other = Authority.create(folder.parent / "other", 10, NOW) and folder.parent / "other"
    for content in (b"", (other / "authority/ca.key").read_bytes()):
        key.write_bytes(content)
        with pytest.raises(BadInput, match="no pair of a key"), Authority(folder, NOW):
            pass
    (folder / "authority/registry.json").write_text("{}]")
    with pytest.raises(BadInput, match=r"registry\.json"), Authority(folder, NOW):
        pass
    (folder / "authority/registry.json").unlink()
    with pytest.raises(BadInput, match=r"registry\.json cannot be used"), Authority(folder, NOW):
        pass


@pytest.fixture(scope="module")
def killed(tmp_path_factory) -> dict[str, list[dict]]:
    """What is left of each command when it is killed before its first change, its second, ..."""
    command = [sys.executable, "-m", "tests.certs.killed", str(tmp_path_factory.mktemp("killed"))]
    root = Path(__file__).parents[2]
    child = subprocess.run(command, capture_output=True, text=True, check=True, cwd=root)
    return json.loads(child.stdout)


def test_the_next_command_after_a_kill_repairs_all_files(killed):
    states = [state for states in killed.values() for state in states]
    assert len(states) > 30
    for state in states:
        wrong = {name: state[name] for name in ("lists_differ", "broken", "hidden", "open_keys")}
        assert wrong == {"lists_differ": [], "broken": [], "hidden": [], "open_keys": []}


@pytest.mark.parametrize(
    ("command", "before", "after"),
    [
        ("issue", ["gpu", "old"], ["gpu", "new", "old"]),
        ("renew", ["gpu", "old"], ["gpu", "old"]),
        ("revoke", ["gpu", "old"], ["gpu"]),
        ("create", [], []),
    ],
)
def test_a_killed_command_was_carried_out_or_not_at_all(killed, command, before, after):
    states = [(state["names"], state["issued"]) for state in killed[command]]
    first, last = states[0], states[-1]
    assert (first[0], last[0]) == (before, after)
    assert states == [first] * states.count(first) + (
        [last] * states.count(last) if last != first else []
    )
