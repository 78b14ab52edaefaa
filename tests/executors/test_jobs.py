"""Questions to a cluster: who gets its token, and what an answer means."""

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from lefleet.cluster.jobs import ClusterUnreachable, Jobs


class Head(ThreadingHTTPServer):
    """Answers every question with a status, a body and headers; remembers what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Answer)
        self.reply: tuple[int, bytes, dict[str, str]] = (200, b'{"status": "RUNNING"}', {})
        self.tokens: list[str | None] = []

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"


class _Answer(BaseHTTPRequestHandler):
    def do_GET(self):
        status, body, headers = self.server.reply
        self.server.tokens.append(self.headers.get("Authorization"))
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Nothing on stderr."""


@pytest.fixture
def head():
    yield from _served()


@pytest.fixture
def other():
    yield from _served()


def _served():
    with Head() as server:
        thread = threading.Thread(target=server.serve_forever, name="head")
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def jobs(head, monkeypatch):
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    return Jobs(head.address)


def test_the_token_goes_to_the_cluster_and_not_to_a_proxy(head, other, jobs, monkeypatch):
    for name in ("http_proxy", "all_proxy"):
        monkeypatch.setenv(name, other.address)
    assert jobs.find("job").status == "RUNNING"
    assert (head.tokens, other.tokens) == (["Bearer secret"], [])


def test_nor_where_an_answer_points_to(head, other, jobs):
    head.reply = 302, b"", {"Location": f"{other.address}/api/jobs/job"}
    with pytest.raises(ClusterUnreachable):
        jobs.find("job")
    assert other.tokens == []


def test_only_ray_itself_says_that_there_is_no_such_job(head, jobs):
    head.reply = 404, b"Job job does not exist", {}
    assert jobs.find("job") is None
    head.reply = 404, b"no backend", {}
    with pytest.raises(ClusterUnreachable, match="no backend"):
        jobs.find("job")
