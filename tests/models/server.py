"""A scripted language model on a real socket of this machine, for tests of whoever asks one.

    with ScriptedModel(obliging) as model:
        plan = ProposePlan(model=model.name)  # openai-chat:scripted@http://127.0.0.1:PORT/v1
        ...
    assert model.calls == 3

The script is a function from a `Posed` question to a reply, or some replies, of which the last is
repeated. Replies: `Says` a JSON value in the form that the API asks for, `Sends` any status and
bytes, `Hangs`, `Drips`, `Floods`. `obliging` answers the three questions of the propose stage as a
sensible model would; `Obeys(candidate)` answers what a text in the data asked for. Leaving the
context ends every connection, so no test waits for a slow reply.
"""

import json
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

PATIENCE_S = 60.0
"""The longest that a reply lasts, should a test forget to end it."""


@dataclass(frozen=True)
class Posed:
    """A question as it arrived."""

    path: str
    headers: dict[str, str]
    """Names in lower case."""
    body: dict[str, Any]

    @property
    def form(self) -> str:
        """Title of the schema of the answer: CandidatesAnswer, ScoresAnswer or CandidateAnswer."""
        forms = ("CandidatesAnswer", "ScoresAnswer", "CandidateAnswer")
        return next(form for form in forms if f'"{form}"' in json.dumps(self.body))

    @property
    def data(self) -> dict[str, Any]:
        """The JSON document, over the API openai-chat."""
        return json.loads(next(m["content"] for m in self.body["messages"] if m["role"] == "user"))


@dataclass(frozen=True)
class Says:
    """A proper answer. Where `value` is a text it is sent as it is, else as JSON."""

    value: Any
    tokens: tuple[Any, Any] | None = (100, 20)
    """Read and written, as the server reports them; None: it does not."""


@dataclass(frozen=True)
class Sends:
    """Any bytes under any status."""

    status: int = 200
    body: bytes = b""
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Hangs:
    """Takes the question and says nothing."""


@dataclass(frozen=True)
class Drips:
    """One byte of an answer that never ends, again and again."""

    every_s: float = 0.05


@dataclass(frozen=True)
class Floods:
    """An answer of this many bytes."""

    size: int


Reply = Says | Sends | Hangs | Drips | Floods
Script = Callable[[Posed], Reply]


def candidate(action: str, episodes: dict[str, Any], why: str = "so") -> dict[str, Any]:
    """One proposal as models make it."""
    amounts = [{"task": task, "episodes": count} for task, count in episodes.items()]
    return {"action": action, "episodes": amounts, "why": why}


def obliging(posed: Posed) -> Reply:
    """A sensible model: the first task gets all that is left, and the second proposal is best."""
    limits = posed.data["limits"]
    least, most = limits["least_per_task"], limits["most_per_task"]
    spare = limits["episodes_in_all"] - least * len(limits["tasks"])

    def favouring(index: int) -> dict[str, Any]:
        amounts = dict.fromkeys(limits["tasks"], least)
        if amounts:
            favourite = limits["tasks"][index % len(amounts)]
            amounts[favourite] = min(most, least + max(spare, 0))
        return candidate(limits["actions"][0], amounts, f"task {index} fails most often")

    match posed.form:
        case "CandidatesAnswer":
            return Says({"candidates": [favouring(0), favouring(1), favouring(2)]})
        case "ScoresAnswer":
            count = len(posed.data["candidates"])
            scores = [{"index": n, "score": 9 if n == 1 else 5, "why": "so"} for n in range(count)]
            return Says({"scores": scores})
        case _:
            return Says(posed.data["candidate"] | {"why": "refined"})


@dataclass(frozen=True)
class Obeys:
    """A model that does what a text in the data told it: the same proposal to every question."""

    wanted: dict[str, Any]

    def __call__(self, posed: Posed) -> Reply:
        match posed.form:
            case "CandidatesAnswer":
                return Says({"candidates": [self.wanted] * 3})
            case "ScoresAnswer":
                return Says({"scores": [{"index": 0, "score": 10, "why": "obeyed"}]})
            case _:
                return Says(self.wanted)


class ScriptedModel:
    """The server. `posed` holds every question so far; read it when no answer is under way.

    One thread accepts, one more serves each connection; `_lock` guards `posed`, `_over` ends all
    replies.
    """

    def __init__(self, *script: Script | Reply) -> None:
        self._script = script
        self._lock = threading.Lock()
        self._over = threading.Event()
        self.posed: list[Posed] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                size = int(self.headers["content-length"])
                names = {name.lower(): value for name, value in self.headers.items()}
                posed = Posed(self.path, names, json.loads(self.rfile.read(size)))
                try:
                    outer._reply(self, posed, outer._next(posed))
                except OSError:
                    self.close_connection = True

            def log_message(self, *_: Any) -> None:
                """Nothing on the terminal of a test."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    @property
    def name(self) -> str:
        """As in `propose.model`."""
        return f"openai-chat:scripted@{self.url}"

    @property
    def calls(self) -> int:
        with self._lock:
            return len(self.posed)

    def _next(self, posed: Posed) -> Reply:
        with self._lock:
            turn = self._script[min(len(self.posed), len(self._script) - 1)]
            self.posed.append(posed)
        return turn(posed) if callable(turn) else turn

    def _reply(self, handler: BaseHTTPRequestHandler, posed: Posed, reply: Reply) -> None:
        match reply:
            case Says():
                _send(handler, Sends(body=json.dumps(_answer(posed, reply)).encode()))
            case Sends():
                _send(handler, reply)
            case Hangs():
                self._over.wait(PATIENCE_S)
            case Drips(every_s):
                _begin(handler, 200, 1_000_000)
                for _ in range(int(PATIENCE_S / every_s)):
                    handler.wfile.write(b" ")
                    if self._over.wait(every_s):
                        return
            case Floods(size):
                _begin(handler, 200, size)
                for _ in range(size // 100_000):
                    handler.wfile.write(b" " * 100_000)


def _begin(handler: BaseHTTPRequestHandler, status: int, size: int, **headers: str) -> None:
    handler.send_response(status)
    for name, value in {"Content-Type": "application/json", **headers}.items():
        handler.send_header(name, value)
    handler.send_header("Content-Length", str(size))
    handler.end_headers()


def _send(handler: BaseHTTPRequestHandler, reply: Sends) -> None:
    _begin(handler, reply.status, len(reply.body), **reply.headers)
    handler.wfile.write(reply.body)


def _answer(posed: Posed, said: Says) -> dict[str, Any]:
    """In the form of the API whose path was asked."""
    text = said.value if isinstance(said.value, str) else json.dumps(said.value)
    read, written = said.tokens or (None, None)
    call = {"id": "1", "call_id": "1", "name": "final_result"}
    if posed.path.endswith("/chat/completions"):
        answer = {
            "id": "1",
            "object": "chat.completion",
            "created": 1,
            "model": "scripted",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": "stop",
                    "message": {"role": "assistant", "content": text},
                }
            ],
        }
        counts = {"prompt_tokens": read, "completion_tokens": written, "total_tokens": 0}
    elif posed.path.endswith("/responses"):
        answer = {
            "id": "1",
            "object": "response",
            "created_at": 1,
            "model": "scripted",
            "status": "completed",
            "output": [{"type": "function_call", "arguments": text, **call}],
            "parallel_tool_calls": False,
            "tool_choice": "auto",
            "tools": [],
        }
        counts = {"input_tokens": read, "output_tokens": written, "total_tokens": 0}
    elif posed.path.endswith("/messages"):
        answer = {
            "id": "1",
            "type": "message",
            "role": "assistant",
            "model": "scripted",
            "stop_reason": "tool_use",
            "content": [{"type": "tool_use", "input": json.loads(text), **call}],
        }
        counts = {"input_tokens": read, "output_tokens": written}
    else:
        answer = {
            "candidates": [
                {
                    "index": 0,
                    "finishReason": "STOP",
                    "content": {
                        "role": "model",
                        "parts": [
                            {"functionCall": {"name": "final_result", "args": json.loads(text)}}
                        ],
                    },
                }
            ]
        }
        counts = {"promptTokenCount": read, "candidatesTokenCount": written}
        return answer | ({"usageMetadata": counts} if said.tokens else {})
    return answer | ({"usage": counts} if said.tokens else {})
