"""Questions to a cluster: who gets its token, and what an answer means."""

import socket
import threading

import pytest

from lefleet.cluster.jobs import Jobs
from lefleet.errors import ClusterUnreachable, TokenRefused
from tests.executors.head import NO_JOB, Reply, served


@pytest.fixture
def head():
    with served() as made:
        made.asked = Reply(200, b'{"status": "RUNNING"}')
        yield made


@pytest.fixture
def other():
    with served() as made:
        yield made


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
    head.asked = Reply(302, b"", {"Location": f"{other.address}/api/jobs/job"})
    with pytest.raises(ClusterUnreachable):
        jobs.find("job")
    assert other.tokens == []


def test_only_ray_itself_says_that_there_is_no_such_job(head, jobs):
    head.asked = NO_JOB
    assert jobs.find("job") is None
    for said in (b"no backend", b"The page does not exist"):
        head.asked = Reply(404, said)
        with pytest.raises(ClusterUnreachable, match=said.decode()):
            jobs.find("job")


@pytest.mark.parametrize("said", [b"", b"[]", b'{"error": "gateway"}', b"<html>", b'{"status": 3}'])
def test_an_answer_that_tells_of_no_job_says_nothing_about_it(head, jobs, said):
    head.asked = Reply(200, said)
    with pytest.raises(ClusterUnreachable):
        jobs.find("job")


def test_a_file_that_has_no_token_is_named(head, tmp_path):
    (tmp_path / "token").write_text("two\nlines")
    for name, words in (("token", "is not one token"), ("none", "cannot be read")):
        with pytest.raises(TokenRefused, match=rf"executor\.token_file: .*{name} .*{words}"):
            Jobs(head.address, str(tmp_path / name)).find("job")
    assert head.tokens == []


def test_what_is_no_dashboard_is_said_without_its_bytes(monkeypatch):
    """Such as the port that nodes join at."""
    monkeypatch.setenv("RAY_AUTH_TOKEN", "secret")
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(1000)
                connection.sendall(b"\0\0\x12\4\0\r\n")

        thread = threading.Thread(target=answer, name="no head")
        thread.start()
        port = server.getsockname()[1]
        with pytest.raises(ClusterUnreachable, match=r"no dashboard, whose port is 8265\."):
            Jobs(f"http://127.0.0.1:{port}").find("job")
        thread.join()
