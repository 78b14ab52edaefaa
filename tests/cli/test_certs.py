"""certs as a user types it."""

import json

import pytest


@pytest.fixture
def certs(lefleet):
    """Runs a command of certs that succeeds; returns what it prints."""

    def run(*arguments: str) -> str:
        code, out, err = lefleet("certs", *arguments)
        assert (code, err) == (0, "")
        return out

    return run


@pytest.fixture
def lab(certs, tmp_path):
    certs("init")
    certs("server", "gpu", "--host", "10.0.0.5", "--host", "gpu.lab")
    certs("robot", "arm-7", "--days", "20")
    return tmp_path / "certs"


def test_each_command_says_what_to_copy_where(certs, lab):
    out = certs("operator", "ann")
    assert "Issued operator ann, valid until " in out
    assert "copy certs/operator-ann to its machine" in out
    assert "Access list: certs/server-gpu." in out
    assert "copy certs/access.json" in out
    (lab / "server-gpu").rename(lab.parent / "server-gpu")
    assert "on other machines (server-gpu): copy certs/access.json" in certs("revoke", "arm-7")


def test_renewing_says_that_the_old_certificate_stays_valid(certs, lab):
    assert "The old certificate stays valid until it expires" in certs("renew", "gpu")


def test_revoking_a_server_says_what_its_key_can_still_do(certs, lab):
    assert "they still trust its key at 10.0.0.5, gpu.lab" in certs("revoke", "gpu")


def test_the_list_warns_of_certificates_that_end_soon(certs, lab):
    certs("operator", "ann")
    certs("revoke", "ann")
    lines = certs("list").splitlines()
    rows = {name: next(line for line in lines if name in line) for name in ("gpu", "arm-7", "ann")}
    assert "valid" in rows["gpu"]
    assert "expires in 19 days" in rows["arm-7"]
    assert "revoked 20" in rows["ann"]


def test_as_json(certs, lab):
    found = json.loads(certs("list", "--json"))
    states = {one["name"]: (one["role"], one["state"]) for one in found["certificates"]}
    assert states == {"gpu": ("server", "valid"), "arm-7": ("robot", "expiring")}
    assert found["certificates"][0]["hosts"] == ["10.0.0.5", "gpu.lab", "localhost", "127.0.0.1"]
    revoked = json.loads(certs("revoke", "arm-7", "--json"))
    assert revoked["revoked"]
    assert revoked["access_lists"] == ["certs/server-gpu"]


def test_what_an_interrupted_command_left_is_reported(certs, lab):
    (lab / ".new-robot-arm-8.1f").mkdir()
    assert "Removed .new-robot-arm-8.1f, which an interrupted command left." in certs("list")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["init"], "certs has an authority already. Use it, or give another --dir."),
        (
            ["list", "--dir", "nothere"],
            "nothere. Create one with: lefleet certs init",
        ),
        (["server", "hub"], "host: missing"),
        (["robot", "arm 8"], "Use arm-8."),
        (["robot", "robot-8"], "Write: lefleet certs robot 8"),
        (["robot", "gpu"], "gpu is a server already"),
        (["robot", "arm-8", "--days", "0"], "days: 0 is not between 1 and 7300."),
        (["renew", "arm-7", "--host", "10.0.0.5"], "host: arm-7 is a robot"),
        (["revoke", "arm-8"], "there is no 'arm-8'. Did you mean arm-7?"),
        (
            ["init", "--dir", "~nobody-here/certs"],
            "dir: ~nobody-here/certs: there is no such user.",
        ),
        (["init", "--dir", "file"], "file cannot be used"),
    ],
)
def test_a_mistake_is_one_line_and_changes_nothing(lefleet, lab, arguments, words):
    (lab.parent / "file").write_text("")
    before = sorted(path for path in lab.parent.rglob("*"))
    code, out, err = lefleet("certs", *arguments)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert words in err
    assert sorted(path for path in lab.parent.rglob("*")) == before
