"""The address of a webhook is known to the environment and to its server, and to nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from lefleet.errors import BadInput
from lefleet.notify import require_sendable
from lefleet.notify.address import expand
from lefleet.notify.channels import NotSent, post
from lefleet.records import NotifyPlan

SECRET = "s3cr3t-T0KEN-0123456789"
PLACES = {
    "path": "{url}/services/$HOOK/x",
    "query": "{url}/x?token=${{HOOK}}",
    "user": "{scheme}bot:$HOOK@{host}/x",
    "whole": "$ALL",
}


def places(url: str) -> dict[str, str]:
    scheme, _, host = url.partition("//")
    return {
        name: text.format(url=url, scheme=f"{scheme}//", host=host) for name, text in PLACES.items()
    }


def all_bytes(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.rglob("*") if path.is_file())


@pytest.fixture
def secret_hook(monkeypatch, receiver):
    monkeypatch.setenv("HOOK", SECRET)
    monkeypatch.setenv("ALL", f"{receiver.url}/{SECRET}")


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("status", [204, 302, 500])
def test_a_secret_is_in_no_file_and_no_output_whatever_the_server_says(
    told, receiver, secret_hook, tmp_path, place, status
):
    """The server repeats it in its reason, its headers and its body."""
    run = told(webhook=places(receiver.url)[place])
    receiver.statuses = [status]
    receiver.text = f"no such hook: {SECRET}"
    receiver.reply = {"Location": f"{receiver.url}/{SECRET}", "X-Hook": SECRET}
    run.event("run_finished", reason="all done")
    run.ledger.notifications.add("r", run.ledger.events("r")[-1].id, "end", "text")
    argv = [sys.executable, "-m", "lefleet", "notify", "exec", str(run.workdir), "r"]
    done = subprocess.run(argv, capture_output=True, check=False)
    assert run.states == ["sent"]
    assert len(receiver.bodies) == 1 if status == 204 else len(receiver.bodies) == 2
    seen = [*receiver.paths, *(str(headers) for headers in receiver.headers)]
    assert any(SECRET in one or "Basic" in one for one in seen)
    written = all_bytes(tmp_path) + done.stdout + done.stderr
    assert SECRET.encode() not in written
    assert b"Ym90On" not in written
    assert status == 204 or b"http://127.0.0.1 answered with status" in written


@pytest.mark.parametrize(
    "address",
    [
        "http://127.0.0.1:1/{}",
        "http://bot:{}@127.0.0.1:1/",
        "http://127.0.0.1:1/?token={}",
        "http://127.0.0.1:1/#{}",
    ],
)
def test_a_server_out_of_reach_is_said_without_the_secret(address):
    with pytest.raises(NotSent) as found:
        post(expand(address.format(SECRET), {}), b"{}")
    assert str(found.value).startswith("notify.webhook: http://127.0.0.1 cannot be reached")
    assert SECRET not in str(found.value)
    assert found.value.__cause__ is None
    assert found.value.__suppress_context__


@pytest.mark.parametrize(
    "value",
    [
        SECRET,
        f"ftp://host/{SECRET}",
        f"file:///{SECRET}",
        f"http:///{SECRET}",
        f"http://host:{SECRET}/",
        f"http://[{SECRET}/",
        f"http://host/{SECRET}\r\nX: y",
        f"http://host/{SECRET} x",
        f"http://host/{SECRET}ü",
        f"{SECRET}:x",
        f"http://{SECRET}@/",
    ],
)
def test_an_address_that_cannot_be_used_is_refused_without_repeating_it(value):
    with pytest.raises(BadInput, match="not an http or https address") as found:
        expand("$HOOK", {"HOOK": value})
    assert SECRET not in str(found.value)


def test_an_address_does_not_show_its_secret():
    found = expand("https://bot:$HOOK@host/$HOOK?a=${HOOK}", {"HOOK": SECRET})
    assert repr(found) == str(found) == "WebhookAddress(https://host)"
    assert found.url == f"https://host/{SECRET}?a={SECRET}"


def test_a_variable_inside_a_variable_is_not_replaced():
    assert expand("http://h/$A", {"A": "$B", "B": "b"}).url == "http://h/$B"


@pytest.mark.parametrize(
    "webhook",
    ["https://bot:pw@host/x", "https://bot@host/x"],
)
def test_a_password_in_a_config_is_refused(webhook):
    with pytest.raises(BadInput, match=r"contains a name and a password. Put the address into an"):
        require_sendable(NotifyPlan(webhook=webhook))


@pytest.mark.parametrize(
    "webhook",
    [f"https://host/services/{SECRET}", f"https://host/?token={SECRET}", f"https://host/#{SECRET}"],
)
def test_what_looks_like_a_secret_in_a_config_is_refused_without_repeating_it(webhook):
    with pytest.raises(BadInput, match=r"looks like a secret. Put the address into an") as found:
        require_sendable(NotifyPlan(webhook=webhook))
    assert SECRET not in str(found.value)


def test_a_config_without_its_variable_is_refused(monkeypatch):
    monkeypatch.delenv("HOOK", raising=False)
    with pytest.raises(BadInput, match=r"variable HOOK is not set. Set it before"):
        require_sendable(NotifyPlan(webhook="https://host/$HOOK"))


def test_a_config_with_a_program_that_is_not_there_is_refused():
    with pytest.raises(BadInput, match=r"notify.command: there is no program 'no-such-program'"):
        require_sendable(NotifyPlan(command=("no-such-program",)))


@pytest.mark.parametrize(
    "plan",
    [
        {},
        {"command": ("true",)},
        {"webhook": "https://hooks.example.org/robots/nightly?title=run"},
        {"webhook": "https://a-very-long-host-name-2.example.org:8443/x"},
        {"webhook": "https://host/$HOOK"},
        {"webhook": "https://bot:${HOOK}@host/"},
        {"webhook": "$ALL"},
    ],
)
def test_a_usable_plan_is_accepted(monkeypatch, plan):
    monkeypatch.setenv("HOOK", SECRET)
    monkeypatch.setenv("ALL", f"https://host/{SECRET}")
    require_sendable(NotifyPlan(**plan))
    assert os.environ["HOOK"] == SECRET
