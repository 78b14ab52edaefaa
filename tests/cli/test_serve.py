"""One life of a server as its operator sees it: started, looked at, asked, stopped; then others
that never began."""

import json
import signal
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from urllib.request import urlopen

import pytest

from lefleet.certs.authority import Authority
from lefleet.cli.serve import served_fields, served_text
from lefleet_client.remote import RemoteError, RemotePolicy, example_observation
from tests.certs.fleet import make_certificates
from tests.cli.child import Child, reserved_port
from tests.client.remote.scripted import hurried
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.waiting import LONG_S
from tests.policy import tiny
from tests.server.serving import Bench, eventually, loaded, manifest_of


@dataclass
class Life:
    folder: Path
    serving: dict
    ready: str
    metrics: str
    fleet: str
    ping: dict
    requests: list[dict]
    code: int
    out: list[str]
    err: list[str]


@pytest.fixture(scope="module")
def port():
    with reserved_port() as port:
        yield port


@pytest.fixture(scope="module")
def life(tmp_path_factory, port) -> Life:
    folder = tmp_path_factory.mktemp("life")
    tiny.act_images(folder / "policy")
    router = Router(FREE_PORT)
    where = ("--connect", router.endpoint)
    arguments = (
        "--model.repo_or_path=policy",
        f"--zenoh.connect=[{router.endpoint}]",
        f"--http_port={port}",
        "--default_task=Fold the shirt.",
        "--capture={dir: ring, max: 4}",
    )
    with Child("serve", *arguments, "--json", folder=folder) as server:
        server.wait_for(lambda child: child.out)
        ready = _page(port, "readyz")
        with Child(
            "ping", "Fold-the-shirt", *where, "--count", "5", "--json", folder=folder
        ) as one:
            assert one.end() == 0, one.err
            ping = json.loads("\n".join(one.out))
        with Child("fleet", *where, folder=folder) as one:
            assert one.end() == 0, one.err
            fleet = "\n".join(one.out)
        metrics = _page(port, "metrics")
        server.signal(signal.SIGTERM)
        code = server.end()
    router.close()
    serving, *requests = [json.loads(line) for line in server.out]
    return Life(
        folder, serving, ready, metrics, fleet, ping, requests, code, server.out, server.err
    )


def test_a_server_that_listens_takes_up_a_new_access_list_with_its_policy_loaded(tmp_path):
    """A robot in the middle of a loop survives that, and a revoked one is out."""
    folder = tmp_path / "certs"
    make_certificates(folder)
    tiny.act_environment(tmp_path / "policy")
    with reserved_port() as port, ExitStack() as stack:
        endpoint = f"tls/127.0.0.1:{port}"
        arguments = (
            "--model.repo_or_path=policy",
            f"--zenoh.listen={endpoint}",
            f"--zenoh.tls={folder / 'server-a'}",
            "--audit=none",
        )
        server = stack.enter_context(Child("serve", *arguments, folder=tmp_path))
        server.wait_for(lambda child: "Ready." in "".join(child.err))
        arm, leg = (
            stack.enter_context(
                RemotePolicy(endpoint, tls=folder / f"robot-{name}", timeout_s=LONG_S)
            )
            for name in ("arm", "leg")
        )
        observation = example_observation(arm.ack.capabilities.contract)
        instance_id = arm.ack.instance_id
        assert arm.infer(observation).server == leg.infer(observation).server == "a"
        with Authority(folder, datetime.now(UTC)) as authority:
            authority.revoke("leg")
        eventually(lambda: arm.infer(observation) and arm.ack.instance_id != instance_id)
        with hurried(leg, 1.0), pytest.raises(RemoteError):
            leg.infer(observation)
        assert arm.infer(observation).server == "a"
        server.signal(signal.SIGTERM)
        assert server.end() == 0
    events = [line.partition("event=")[2].split()[0] for line in server.err if "event=" in line]
    assert [events.count(name) for name in ("loading", "reopened", "ready")] == [1, 1, 2]


def _page(port: int, name: str) -> str:
    with urlopen(f"http://127.0.0.1:{port}/{name}", timeout=LONG_S) as page:
        return page.read().decode()


def test_it_says_what_it_serves(life):
    serving = life.serving
    assert serving["event"] == "serving"
    assert (serving["service"], serving["model"]) == ("Fold-the-shirt", "policy")
    assert (serving["policy_type"], serving["serving_mode"]) == ("act", "shared")
    assert serving["contract"]["action_names"] == list(tiny.JOINTS)
    assert serving["contract_source"] == "lefleet.json"
    assert len(serving["digest"]) == 64
    assert serving["revision"] == serving["digest"][:12], "as in the keys: a folder has no other"


def test_a_fleet_shows_it(life):
    assert life.serving["server"] in life.fleet
    assert "Fold-the-shirt" in life.fleet
    assert "0/16" in life.fleet


def test_a_ping_says_where_the_time_went(life):
    ping = life.ping
    assert ping["count"] == 5
    assert ping["servers"] == [life.serving["server"]]
    assert ping["image_codec"] in ("raw", "jpeg")
    for part in ("encode", "network", "queue", "prepare", "inference", "total"):
        assert 0 <= ping[part]["p50"] <= ping[part]["p95"]


def test_each_request_is_an_audit_line_on_stdout(life):
    assert {line["event"] for line in life.requests} == {"request"}
    assert [line["result"] for line in life.requests] == ["answered"] * 6, "the first one warms up"


def test_health_and_metrics_are_served(life):
    assert life.ready == "ready\n"
    assert 'lefleet_requests_total{result="answered"} 6.0' in life.metrics
    assert "lefleet_max_sessions 16.0" in life.metrics


def test_a_signal_ends_it_with_0_after_draining(life):
    assert life.code == 0
    events = " ".join(life.err)
    assert events.index("event=draining") < events.index("event=drained")


def test_the_log_is_a_line_for_each_event(life):
    ours = [line for line in life.err if "logger=lefleet" in line]
    assert ours
    assert all(line.startswith("time=") and " event=" in line for line in ours)


def test_captures_come_out_the_same_when_they_are_computed_again(life, lefleet):
    assert not Path("policy").exists(), "as in the manifest, but this is another folder"
    code, out, _ = lefleet("replay", str(life.folder / "ring"), "--json")
    report = json.loads(out)
    assert (code, report["is_same"], report["notes"]) == (0, True, [])
    assert [one["result"] for one in report["requests"]] == ["equal"] * 4


def test_another_checkpoint_answers_captures_differently_and_that_is_said(life, lefleet):
    other = tiny.act_images(life.folder / "other", seed=1)
    code, out, err = lefleet("replay", str(life.folder / "ring"), f"--model.repo_or_path={other}")
    assert code == 1
    assert out.endswith("4 different\n")
    assert "differs by up to" in out
    assert f"Captured with the checkpoint {life.serving['digest'][:12]}" in err


def test_a_plan_says_how_many_robots_it_can_feed(life, lefleet):
    policy = f"--model.repo_or_path={life.folder / 'policy'}"
    code, out, _ = lefleet("serve", policy, "--plan", "--rtt-ms=0", "--json")
    plan = json.loads(out)
    assert code == 0
    assert plan["inference_s"] > 0
    assert plan["by_throughput"] == pytest.approx(0.8 / (20 / 6 * plan["inference_s"]))
    assert plan["by_freshness"] == pytest.approx(8 / 20 / 2 / plan["inference_s"])


def test_a_plan_says_that_it_depends_on_what_else_runs(life, lefleet):
    policy = f"--model.repo_or_path={life.folder / 'policy'}"
    _, out, _ = lefleet("serve", policy, "--plan")
    assert out.splitlines()[-1].startswith("Measured just now: other load on this machine")


def test_a_plan_of_an_exclusive_policy_is_for_one_robot(life, lefleet, monkeypatch):
    monkeypatch.setattr("lefleet.policy.warmup.measure", lambda _: 0.01)
    policy = f"--model.repo_or_path={life.folder / 'policy'}"
    code, out, _ = lefleet(
        "serve", policy, "--serving_mode=exclusive", "--plan", "--rtt-ms=0", "--json"
    )
    plan = json.loads(out)
    assert code == 0
    assert (plan["robots"], plan["limit"], plan["max_sessions"]) == (1, "exclusive", 1)
    assert plan["by_throughput"] == pytest.approx(24)


@pytest.mark.parametrize(
    ("argument", "words"),
    [
        ("--max_sessions=0", "max_sessions: Expected `int` >= 1."),
        ("--serving_mode=both", "Use auto, exclusive or shared."),
        ("--zenoh.listen=[tls/127.0.0.1:0]", "zenoh.listen: "),
        ("--capture.dir=/proc/none", "capture.dir: "),
        ("--audit=/proc/none/audit", "audit: "),
    ],
)
def test_a_bad_manifest_ends_with_2_before_a_checkpoint_is_looked_for(
    lefleet, quiet, argument, words
):
    code, out, err = lefleet("serve", "--model.repo_or_path=missing", argument)
    assert (code, out) == (2, "")
    assert words in err
    assert "does not exist" not in err
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("device", "remedy"),
    [("cuda:99", "There is: cpu"), ("abacus", "Use auto, cpu, cuda, cuda:N or mps.")],
)
def test_a_device_that_is_not_there_is_said_in_one_line(life, lefleet, quiet, device, remedy):
    policy = f"--model.repo_or_path={life.folder / 'policy'}"
    code, _, err = lefleet("serve", policy, f"--model.device={device}", "--plan")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("lefleet: model.device: ")
    assert remedy in err
    assert ".. " not in err


def test_a_port_in_use_ends_with_1_before_a_checkpoint_is_looked_for(lefleet, quiet):
    router = Router(FREE_PORT)
    code, _, err = lefleet(
        "serve", "--model.repo_or_path=missing", f"--zenoh.listen=[{router.endpoint}]"
    )
    router.close()
    assert code == 1
    assert router.endpoint in err
    assert err.count("\n") == 1


def test_a_signal_while_the_policy_is_loading_ends_it_with_0(lefleet, quiet, monkeypatch):
    monkeypatch.setattr(
        "lefleet.cli.serve.load_served", lambda _: signal.raise_signal(signal.SIGTERM)
    )
    code, out, _ = lefleet(
        "serve", "--model.repo_or_path=missing", "--zenoh.listen=[tcp/127.0.0.1:0]"
    )
    assert (code, out) == (0, "")


def test_without_a_checkpoint_it_says_how_to_name_one(lefleet):
    code, _, err = lefleet("serve")
    assert code == 2
    assert "--model.repo_or_path=" in err


@pytest.fixture
def quiet(monkeypatch):
    """Leaves the log of this process as it is."""
    monkeypatch.setattr("lefleet.cli.serve.log_to_stderr", lambda: None)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tiny.act_environment(tmp_path_factory.mktemp("served") / "folded")
    policy = loaded(folder, serving_mode="exclusive")
    with Bench(folder, policy) as bench:
        return policy, manifest_of(folder), bench.service.status(), ""


def test_a_program_reads_the_names_in_the_keys(served):
    policy, _, status, _ = served
    fields = served_fields(*served)
    assert fields["revision"] == policy.digest[:12]
    names = status.capabilities
    assert (fields["model"], fields["revision"]) == (names.model, names.revision)
    assert (fields["service"], fields["server"]) == (status.service, status.server)
    assert fields["max_sessions"] == 1


def test_a_person_reads_the_names_in_the_keys(served):
    policy, _, status, _ = served
    title, model, *rest = served_text(*served).splitlines()
    assert title == f"Service test on server {status.server}"
    assert model.split(maxsplit=1)[1] == f"folded (act, revision {policy.digest[:12]})"
    assert "  robots      up to 1" in rest
    assert "  device      cpu, dtype of the checkpoint" in rest
