"""Outcomes and state, as Prometheus reads them."""

from dataclasses import dataclass, field

import pytest
from prometheus_client.parser import text_string_to_metric_families

from lefleet.server.metrics import Metrics
from lefleet_client.wire import ServerStatus
from tests.server.outcomes import ANSWERED, outcome, status


@dataclass
class Server:
    is_ready: bool = True
    dropped: dict = field(default_factory=lambda: {"length": 2, "no_session": 9})
    probes: dict = field(default_factory=lambda: {"jpeg": 7})
    state: dict = field(default_factory=lambda: {"sessions": 3, "load": 0.5, "draining": False})

    def status(self) -> ServerStatus:
        return status(max_sessions=16, **self.state)


def samples(metrics: Metrics) -> dict:
    families = text_string_to_metric_families(metrics.exposition().decode())
    return {
        (sample.name, *sample.labels.values()): sample.value
        for family in families
        for sample in family.samples
    }


def test_outcomes_are_counted_by_their_end():
    metrics = Metrics()
    metrics.finished(ANSWERED)
    metrics.finished(outcome(result="failed", reason="no", superseded=1))
    metrics.finished(outcome(result="stale", superseded=0))
    metrics.finished(ANSWERED)
    seen = samples(metrics)
    by_result = {r: seen["lefleet_requests_total", r] for r in ("answered", "failed", "stale")}
    assert by_result == {"answered": 2, "failed": 1, "stale": 1}
    assert seen[("lefleet_superseded_total",)] == 5


def test_durations_are_of_answers_only_and_in_seconds():
    metrics = Metrics()
    metrics.finished(ANSWERED)
    metrics.finished(outcome(result="failed", inference_ms=9000.0))
    seen = samples(metrics)
    assert seen[("lefleet_inference_seconds_sum",)] == pytest.approx(0.04)
    assert seen[("lefleet_queue_wait_seconds_sum",)] == pytest.approx(0.02)
    assert seen[("lefleet_prepare_seconds_sum",)] == pytest.approx(0.003)
    assert seen["lefleet_inference_seconds_bucket", "0.025"] == 0
    assert seen["lefleet_inference_seconds_bucket", "0.05"] == 1
    assert seen["lefleet_batch_size_bucket", "1.0"] == 1


def test_every_result_is_there_before_the_first_request():
    seen = samples(Metrics())
    assert [seen["lefleet_requests_total", r] for r in ("answered", "failed", "stale")] == [0] * 3


def test_the_state_of_a_server_is_read_at_each_scrape():
    metrics, server = Metrics(), Server()
    assert ("lefleet_sessions",) not in samples(metrics)
    metrics.watch(server, {"audit": lambda: 4})
    seen = samples(metrics)
    names = ("sessions", "max_sessions", "load", "ready", "draining")
    assert [seen[(f"lefleet_{name}",)] for name in names] == [3, 16, 0.5, 1, 0]
    assert seen["lefleet_probes_total", "jpeg"] == 7
    assert seen["lefleet_dropped_total", "length"] == 2
    assert seen["lefleet_dropped_total", "no_session"] == 9
    assert seen["lefleet_skipped_total", "audit"] == 4
    server.state |= {"draining": True, "sessions": 2}
    server.is_ready = False
    seen = samples(metrics)
    assert [seen[(f"lefleet_{name}",)] for name in ("draining", "sessions", "ready")] == [1, 2, 0]


def test_every_reason_and_codec_is_there_before_the_first_message():
    metrics = Metrics()
    metrics.watch(Server(dropped={}, probes={}), {})
    seen = samples(metrics)
    reasons = {key[1]: value for key, value in seen.items() if key[0] == "lefleet_dropped_total"}
    assert reasons == dict.fromkeys(
        (
            *("length", "version", "type", "not_an_observation", "key", "question"),
            *("no_session", "too_large", "strangers"),
        ),
        0,
    )
    assert [seen["lefleet_probes_total", codec] for codec in ("jpeg", "raw")] == [0, 0]


def test_a_reason_that_is_not_known_beforehand_is_shown_too():
    metrics = Metrics()
    metrics.watch(Server(dropped={"other": 3}), {})
    assert samples(metrics)["lefleet_dropped_total", "other"] == 3


def test_two_servers_in_one_process_do_not_share_numbers():
    one, other = Metrics(), Metrics()
    one.finished(ANSWERED)
    assert samples(other)["lefleet_requests_total", "answered"] == 0
