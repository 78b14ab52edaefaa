"""OpenTelemetry spans of questions to language models, where an exporter is configured.

The attributes follow OpenTelemetry's conventions for generative AI. Neither questions nor answers
nor texts of errors are in a span.
"""

import contextlib
import os
import threading
from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import Any
from urllib.parse import urlsplit

from opentelemetry import trace

from lefleet.models.client import ModelName

_PROVIDER_NAMES = {"anthropic": "anthropic", "google": "gcp.gemini"}
_FLUSH_S = 5.0


@contextlib.contextmanager
def tracer() -> Iterator[trace.Tracer | None]:
    """A tracer for one question; None where nothing would receive its spans.

    The provider that the process has set is used as it is. Otherwise one is made of what
    OpenTelemetry's environment variables name, and what it holds is exported at the end.
    """
    set_already = _provider_of_this_process()
    if set_already is not None:
        yield set_already.get_tracer("lefleet")
        return
    made = _provider_from_environment()
    if made is None:
        yield None
        return
    try:
        yield made.get_tracer("lefleet")
    finally:
        # A collector that does not answer must not hold the stage.
        flushing = threading.Thread(target=made.shutdown, name="traces", daemon=True)
        flushing.start()
        flushing.join(_FLUSH_S)


def _provider_of_this_process() -> trace.TracerProvider | None:
    try:
        provider = trace.get_tracer_provider()
    except Exception:  # noqa: BLE001  # a variable of OpenTelemetry's may name what is not there
        return None
    is_none = isinstance(provider, trace.ProxyTracerProvider | trace.NoOpTracerProvider)
    return None if is_none else provider


def _provider_from_environment() -> Any:
    """None where no exporter is named, or where its package is missing."""
    named = os.environ.get("OTEL_TRACES_EXPORTER", "")
    if not named and os.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT"):
        named = "otlp_proto_http"
    chosen = {"otlp": "otlp_proto_http"}.get(named.strip(), named.strip())
    found = entry_points(group="opentelemetry_traces_exporter", name=chosen)
    if not chosen or not found or os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    try:
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor

        exporter = next(iter(found)).load()()
    except Exception:  # noqa: BLE001  # tracing must not change what a run does
        return None
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


class CallSpan:
    """The span of one call; does nothing without a tracer."""

    def __init__(self, tracer: trace.Tracer | None, name: ModelName, max_tokens: int) -> None:
        self._span: trace.Span = trace.INVALID_SPAN
        if tracer is None:
            return
        address = urlsplit(name.url)
        self._span = tracer.start_span(
            f"chat {name.model}",
            kind=trace.SpanKind.CLIENT,
            attributes={
                "gen_ai.operation.name": "chat",
                "gen_ai.output.type": "json",
                "gen_ai.provider.name": _PROVIDER_NAMES.get(name.provider, "openai"),
                "gen_ai.request.model": name.model,
                "gen_ai.request.max_tokens": max_tokens,
                "server.address": address.hostname or "",
                "server.port": address.port or (443 if address.scheme == "https" else 80),
            },
        )

    def end(self, input_tokens: int, output_tokens: int, failure: str = "") -> None:
        """`failure` is the type of what went wrong, empty where nothing did."""
        self._span.set_attribute("gen_ai.usage.input_tokens", input_tokens)
        self._span.set_attribute("gen_ai.usage.output_tokens", output_tokens)
        if failure:
            self._span.set_attribute("error.type", failure)
            self._span.set_status(trace.StatusCode.ERROR)
        self._span.end()
