"""An environment without keys and exporters, whatever the machine has."""

import pytest

SECRETS = ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GOOGLE_API_KEY", "GEMINI_API_KEY")
EXPORTERS = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_SDK_DISABLED")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*SECRETS, *EXPORTERS):
        monkeypatch.delenv(name, raising=False)
