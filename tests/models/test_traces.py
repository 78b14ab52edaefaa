"""Spans of questions to a model: only where something receives them, and without any content."""

import json
import threading

import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from lefleet.models import traces
from lefleet.stages import run_stage
from tests.models.samples import asking
from tests.models.server import Says, ScriptedModel, Sends, obliging

KEY = "sk-planted-0123456789"
PAGE = "a page that nobody else should read"


@pytest.fixture
def exporter(monkeypatch):
    """Receives the spans of this process for one test: OpenTelemetry sets a provider only once."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: provider)
    return exporter


def test_every_call_is_a_span_of_the_conventions_for_generative_ai(tmp_path, exporter):
    with ScriptedModel(obliging) as model:
        run_stage(asking(model.name), tmp_path / "propose")
    spans = exporter.get_finished_spans()
    assert [span.name for span in spans] == ["chat scripted"] * 3
    assert spans[0].kind is trace.SpanKind.CLIENT
    assert dict(spans[0].attributes) == {
        "gen_ai.operation.name": "chat",
        "gen_ai.output.type": "json",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "scripted",
        "gen_ai.request.max_tokens": 2000,
        "server.address": "127.0.0.1",
        "server.port": int(model.url.split(":")[2].removesuffix("/v1")),
        "gen_ai.usage.input_tokens": 100,
        "gen_ai.usage.output_tokens": 20,
    }


def test_a_failed_call_is_a_span_with_the_type_of_the_error_only(tmp_path, exporter, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    body = json.dumps({"error": {"message": f"the key {KEY} is wrong"}}).encode()
    with ScriptedModel(Sends(401, body)) as model:
        run_stage(asking(model.name), tmp_path / "propose")
    (span,) = exporter.get_finished_spans()
    assert span.status.status_code is trace.StatusCode.ERROR
    assert span.attributes["error.type"].isidentifier()
    assert span.events == ()
    assert KEY not in span.to_json()


def test_spans_hold_neither_questions_nor_answers(tmp_path, exporter, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    wrong = Says({"candidates": [f"a secret answer, {KEY}"]})
    with ScriptedModel(wrong, obliging) as model:
        request = asking(model.name, evidence={"page": PAGE}, retries=1)
        run_stage(request, tmp_path / "propose")
    spans = exporter.get_finished_spans()
    assert len(spans) == model.calls == 4
    text = "".join(span.to_json() for span in spans)
    for content in (PAGE, KEY, "secret answer", "robot policy", "refined"):
        assert content not in text


def test_without_an_exporter_nothing_is_traced():
    with traces.tracer() as found:
        assert found is None


@pytest.mark.parametrize(
    ("variable", "value"),
    [
        ("OTEL_TRACES_EXPORTER", "none"),
        ("OTEL_TRACES_EXPORTER", "no-such-exporter"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
    ],
)
def test_an_exporter_that_is_not_installed_is_no_exporter(monkeypatch, variable, value):
    monkeypatch.setattr(traces, "entry_points", lambda **_: ())
    monkeypatch.setenv(variable, value)
    with traces.tracer() as found:
        assert found is None


def test_a_tracer_provider_that_cannot_be_loaded_is_none(monkeypatch):
    def load():
        raise ValueError("no such provider")

    monkeypatch.setattr(trace, "get_tracer_provider", load)
    with traces.tracer() as found:
        assert found is None


def test_an_exporter_that_hangs_does_not_hold_the_question(monkeypatch):
    class Stuck:
        def get_tracer(self, name):
            return trace.NoOpTracer()

        def shutdown(self):
            threading.Event().wait(60)

    monkeypatch.setattr(traces, "_provider_from_environment", Stuck)
    monkeypatch.setattr(traces, "_FLUSH_S", 0.1)
    with traces.tracer() as found:
        assert found is not None
