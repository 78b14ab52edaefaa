"""Logs for operators: one event per line on stderr, as key=value."""

import json
import logging
import sys
import time

_QUIET = logging.WARNING


class _KeyValue(logging.Formatter):
    """Our own events are key=value already; what others write becomes one value."""

    def format(self, record: logging.LogRecord) -> str:
        message = record.getMessage()
        if not message.startswith("event=") or "\n" in message:
            message = f"event=log message={json.dumps(message, ensure_ascii=False)}"
        if record.exc_info:
            trace = self.formatException(record.exc_info)
            message += f" trace={json.dumps(trace, ensure_ascii=False)}"
        moment = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        return (
            f"time={moment}.{record.msecs:03.0f}Z level={record.levelname.lower()} "
            f"logger={record.name} {message}"
        )


def log_to_stderr() -> None:
    """Everything of lefleet, and what is serious of others."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_KeyValue())
    logging.basicConfig(handlers=[handler], level=_QUIET, force=True)
    for name in ("lefleet", "lefleet_client"):
        logging.getLogger(name).setLevel(logging.INFO)
