"""A command and a webhook by themselves: time-outs, exit codes, environment, answers."""

import os
import signal
import socket
import sys
import threading

import pytest

from lefleet.notify.address import expand
from lefleet.notify.channels import MARK, OUTPUT_BYTES, NotSent, post, run_command
from lefleet.process import processes_marked
from tests.notify.conftest import wait_for


def python(code: str) -> tuple[str, ...]:
    return (sys.executable, "-c", code)


def test_a_command_sees_no_secret_of_the_environment(tmp_path, monkeypatch):
    for name in ("OPENAI_API_KEY", "HF_TOKEN", "LEFLEET_WEBHOOK", "PYTHONPATH"):
        monkeypatch.setenv(name, "secret")
    said = run_command(python("import os; print(*os.environ)"), b"{}", "m", tmp_path).decode()
    assert set(said.split()).isdisjoint({"OPENAI_API_KEY", "HF_TOKEN", "LEFLEET_WEBHOOK"})
    assert {"PATH", "HOME"} <= set(said.split())
    assert "PYTHONPATH" not in said


def test_a_command_that_does_not_read_its_stdin_is_no_failure(tmp_path):
    assert run_command(("true",), b"{}" * 10_000, "m", tmp_path) == b""


def test_only_the_beginning_of_its_output_is_kept(tmp_path):
    code = "import sys; [sys.stdout.write('x' * 100_000) for _ in range(20)]"
    assert run_command(python(code), b"{}", "m", tmp_path) == b"x" * OUTPUT_BYTES


def test_an_exit_code_says_that_it_was_not_sent_and_keeps_the_output(tmp_path):
    code = "import sys; print('no network', file=sys.stderr); sys.exit(7)"
    with pytest.raises(NotSent, match="exited with code 7") as found:
        run_command(python(code), b"{}", "m", tmp_path)
    assert found.value.output == b"no network\n"


def test_a_program_that_is_gone_is_said_by_its_name(tmp_path):
    with pytest.raises(NotSent, match="Could not start /no/such: No such file"):
        run_command(("/no/such",), b"{}", "m", tmp_path)


def test_a_late_command_is_killed_with_all_that_it_started(tmp_path):
    code = (
        "import subprocess, sys, time\n"
        "subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'],"
        " start_new_session=True)\n"
        "open('started', 'w')\ntime.sleep(1000)"
    )
    with pytest.raises(NotSent, match=r"did not exit within 2 s"):
        run_command(python(code), b"{}", "late", tmp_path, timeout_s=2.0)
    assert (tmp_path / "started").exists()
    wait_for(lambda: "late" not in processes_marked(MARK).values(), "the end of all processes")


def test_what_a_command_leaves_running_does_not_make_it_late(tmp_path):
    code = (
        "import subprocess, sys\n"
        "left = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(1000)'])\n"
        "print(left.pid, flush=True)\nimport os; os._exit(0)"
    )
    left = int(run_command(python(code), b"{}", "m", tmp_path, timeout_s=600.0))
    # It is alive and has the command's output open.
    os.kill(left, signal.SIGKILL)


def test_a_command_that_closes_its_output_may_go_on(tmp_path):
    code = "import os, time; os.close(1); os.close(2); time.sleep(0.3); open('done', 'w')"
    run_command(python(code), b"{}", "m", tmp_path)
    assert (tmp_path / "done").exists()


@pytest.mark.parametrize("status", [200, 202, 204])
def test_a_success_is_a_success(receiver, status):
    receiver.statuses = [status]
    post(expand(receiver.url, {}), b"{}")


@pytest.mark.parametrize("status", [400, 404, 410, 429, 500, 503])
def test_any_other_status_is_not_sent(receiver, status):
    receiver.statuses = [status]
    with pytest.raises(NotSent, match=f"http://127.0.0.1 answered with status {status}"):
        post(expand(receiver.url, {}), b"{}")


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed(receiver, status):
    receiver.statuses = [status]
    receiver.reply = {"Location": f"{receiver.url}/elsewhere"}
    with pytest.raises(NotSent, match="a redirect, which is not followed"):
        post(expand(receiver.url, {}), b"{}")
    assert len(receiver.paths) == 1


def test_a_user_and_a_password_travel_in_a_header(receiver):
    post(expand(receiver.url.replace("//", "//us%65r:p%40ss@"), {}), b"{}")
    assert receiver.headers[0]["Authorization"] == "Basic dXNlcjpwQHNz"
    assert "@" not in receiver.headers[0]["Host"]


def test_a_server_that_answers_byte_by_byte_is_given_up():
    """Each byte comes within the socket's time-out, the end of the headers never."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        stopped = threading.Event()

        def drip():
            connection, _ = server.accept()
            with connection:
                connection.send(b"HTTP/1.1 200 OK\r\nX-Drip: ")
                while not stopped.wait(0.1):
                    connection.send(b"x")

        thread = threading.Thread(target=drip)
        thread.start()
        url = f"http://127.0.0.1:{server.getsockname()[1]}/"
        try:
            with pytest.raises(NotSent, match=r"did not answer within 1 s"):
                post(expand(url, {}), b"{}", timeout_s=1.0)
        finally:
            stopped.set()
            thread.join()


def test_a_port_where_nobody_listens_is_said_plainly():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}/"
        with pytest.raises(
            NotSent, match=r"http://127.0.0.1 cannot be reached: Connection refused"
        ):
            post(expand(url, {}), b"{}")


def test_a_server_without_tls_behind_an_https_address_is_said_plainly(receiver):
    with pytest.raises(NotSent, match=r"https://127.0.0.1 cannot be reached: TLS could not"):
        post(expand(receiver.url.replace("http:", "https:"), {}), b"{}")


def test_a_server_that_hangs_up_is_said_plainly():
    with socket.create_server(("127.0.0.1", 0)) as server:

        def hang_up():
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)

        thread = threading.Thread(target=hang_up)
        thread.start()
        with pytest.raises(NotSent, match=r"closed the connection without an answer|reset by peer"):
            post(expand(f"http://127.0.0.1:{server.getsockname()[1]}/", {}), b"{}")
        thread.join()


def test_a_proxy_of_the_environment_is_used(receiver, monkeypatch):
    monkeypatch.setenv("http_proxy", receiver.url)
    monkeypatch.delenv("no_proxy", raising=False)
    post(expand("http://hooks.invalid/x", {}), b"{}")
    assert receiver.paths == ["http://hooks.invalid/x"]
    assert os.environ["http_proxy"] == receiver.url
