"""`lefleet dash` as a process: its life, its address, and what reaches it over real sockets."""

import json
import os
import re
import signal
import socket
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

import httpx
import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from lefleet.actions.people import user_name
from lefleet.dash import peers, tokens
from lefleet.dash.address import announce, only_one, running
from lefleet.errors import BadInput
from tests.cli.conftest import default_hangup  # noqa: F401 - a fixture
from tests.client.transport.waiting import LONG_S
from tests.dash.serving import child, dashboard

SOCKET = "/_nicegui_ws/socket.io/?EIO=4&transport=websocket"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Where the commands are started."""
    return tmp_path_factory.mktemp("cwd")


@pytest.fixture(scope="module")
def home(tmp_path_factory, folder):
    """On loopback; its work folder and its address."""
    workdir = tmp_path_factory.mktemp("home") / "runs"
    with dashboard(workdir, "--port", "0", folder=folder) as (_, url):
        yield workdir, url


@pytest.fixture(scope="module")
def remote(tmp_path_factory, folder):
    """Bound to all addresses, so that everybody needs a token."""
    workdir = tmp_path_factory.mktemp("remote")
    tokens.add(workdir, "somebody")
    with dashboard(workdir, "--port", "0", "--host", "0.0.0.0", folder=folder) as (_, url):
        yield workdir, url


def socket_of(url: str, **options):
    return connect(url.replace("http", "ws") + SOCKET, **options)


@contextmanager
def raw(url: str):
    """A connection that sends what no client library would."""
    where = urlsplit(url)
    with socket.create_connection((where.hostname, where.port), LONG_S) as one:

        def say(*lines: str | bytes) -> bytes:
            data = [x.encode() if isinstance(x, str) else x for x in (*lines, "Connection: close")]
            one.sendall(b"\r\n".join(data) + b"\r\n\r\n")
            return b"".join(iter(lambda: one.recv(65536), b""))

        yield say


def test_it_starts_says_where_and_leaves_nothing_else_behind(home, folder):
    workdir, url = home
    assert running(workdir) == url
    assert [one.name for one in workdir.iterdir()] == [".dash"]
    page = httpx.get(url)
    assert page.status_code == 200
    assert user_name() in page.text
    assert httpx.get(f"{url}/api/openapi.json").json()["info"]["title"] == "LeFleet"
    assert [*folder.iterdir()] == []


def test_only_scripts_of_the_page_itself_may_run(home):
    _, url = home
    page = httpx.get(url)
    nonce = re.search("'nonce-([^']+)'", page.headers["content-security-policy"])[1]
    scripts = re.findall(r"<script\b[^>]*>", page.text)
    assert len(scripts) > 5
    assert all(f'nonce="{nonce}"' in one for one in scripts)


def test_a_second_one_for_the_same_folder_says_where_the_first_is(home, folder):
    workdir, url = home
    with child("dash", "--workdir", str(workdir), "--port", "0", folder=folder) as second:
        assert second.end() == 2
        assert url in second.err[-1]
    assert running(workdir) == url


def test_a_port_that_is_in_use_is_refused(home, folder, tmp_path):
    port = str(urlsplit(home[1]).port)
    with child("dash", "--workdir", str(tmp_path), "--port", port, folder=folder) as second:
        assert second.end() == 2
        assert second.err[-1] == (
            f"lefleet: port: {port} of 127.0.0.1 cannot be used: another program uses it. "
            "Choose another one with --port, or a free one with --port 0."
        )


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("/runs/nobody", "there is no run called nobody"),
        ("/runs/nobody/cycles/1", "there is no run called nobody"),
        ("/runs/nobody/cycles/last", "There is no such page"),
        ("/episodes/nothing", "there is no dataset"),
        ("/episodes/nothing/0", "there is no dataset"),
        ("/knowledge/tasks/none.md", "there is no page"),
        ("/nothing", "There is no such page"),
        ("/?offset=first", "There is no such page"),
    ],
)
def test_a_page_about_what_does_not_exist_says_so_with_its_status(home, path, words):
    answer = httpx.get(f"{home[1]}{path}")
    assert answer.status_code == 404
    assert answer.headers["content-type"].startswith("text/html")
    assert words in answer.text
    assert "All runs" in answer.text


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
@pytest.mark.usefixtures("default_hangup")
def test_a_signal_ends_it_with_open_pages(tmp_path, folder, number):
    with dashboard(tmp_path, "--port", "0", folder=folder) as (process, url):
        with socket_of(url) as page, httpx.Client() as kept_alive:
            kept_alive.get(url)
            assert page.recv().startswith("0{")
            process.signal(number)
            assert process.end() == 0
        assert process.err == []
    assert running(tmp_path) is None
    assert not (tmp_path / ".dash" / "address.json").exists()


def test_one_that_was_killed_leaves_no_address_that_counts(tmp_path, folder):
    with dashboard(tmp_path, "--port", "0", folder=folder) as (process, _):
        process.signal(signal.SIGKILL)
        process.end()
    assert (tmp_path / ".dash" / "address.json").exists()
    assert running(tmp_path) is None
    with only_one(tmp_path):
        assert running(tmp_path) is None
        announce(tmp_path, "http://127.0.0.1:1")
        assert running(tmp_path) == "http://127.0.0.1:1"
        with pytest.raises(BadInput, match=r"http://127\.0\.0\.1:1"), only_one(tmp_path):
            pass


@pytest.mark.parametrize("host", ["::1", "localhost", "127.0.0.2"])
def test_it_listens_where_it_is_told(tmp_path, folder, host):
    with dashboard(tmp_path, "--port", "0", "--host", host, folder=folder) as (_, url):
        assert httpx.get(url).status_code == 200
        with raw(url) as say:
            assert b" 403 " in say("GET / HTTP/1.1", "Host: evil.com")


def test_json_says_the_same(tmp_path, folder):
    with child("dash", "--workdir", str(tmp_path), "--port=0", "--json", folder=folder) as process:
        process.wait_for(lambda one: one.out)
        said = json.loads(process.out[0])
        assert said["event"] == "serving"
        assert said["url"] == running(tmp_path)
        assert not said["needs_token"]


# What no client library sends


def test_a_foreign_host_gets_nothing(home):
    with raw(home[1]) as say:
        assert b" 403 " in say("GET / HTTP/1.1", "Host: evil.com")


@pytest.mark.parametrize(
    "lines",
    [
        ["GET / HTTP/1.1"],
        ["GET / HTTP/1.0"],
        ["GET / HTTP/1.1", "Host: 127.0.0.1", "Host: evil.com"],
        ["GET / HTTP/1.1", "Host: evil.com", "Host: 127.0.0.1"],
        ["GET / HTTP/1.1", "Host: 127.0.0.1", " folded: x", "Host: evil.com"],
        ["GET http://evil.com/ HTTP/1.1", "Host: evil.com"],
        ["POST / HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 5", "Transfer-Encoding: chunked"],
        ["POST / HTTP/1.1", "Host: 127.0.0.1", "Content-Length: 5", "Content-Length: 6"],
        ["GET / HTTP/1.1", "Host : 127.0.0.1"],
        ["GET / HTTP/1.1", "Host: 127.0.0.1", "X: " + "a" * 2**20],
        ["GET /" + "a" * 2**20 + " HTTP/1.1", "Host: 127.0.0.1"],
        ["GET / HTTP/1.1", "Host: 127.0.0.1", *["X: " + "a" * 1000] * 1000],
        [b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"],
    ],
)
def test_malformed_and_endless_requests_are_refused(home, lines):
    with raw(home[1]) as say:
        try:
            answer = say(*lines)
        except (BrokenPipeError, ConnectionResetError):
            return
        assert re.match(rb"HTTP/1.1 4\d\d ", answer) or not answer
    assert httpx.get(home[1]).status_code == 200


def test_encoded_paths_do_not_get_around_the_login(remote):
    _, url = remote
    tricks = ["/%6cogin/../api/openapi.json", "/login%2f..%2fapi%2fopenapi.json", "//login/..//"]
    tricks += ["/login%00", "/login/%2e%2e/", "/login?/../api", "/favicon.ico%2f..", "/%2e/login"]
    for path in ("/api/openapi.json", "/_nicegui_ws/socket.io/?EIO=4&transport=polling", *tricks):
        with raw(url) as say:
            answer = say(f"GET {path} HTTP/1.1", "Host: 127.0.0.1")
        is_login_page = b" 200 " in answer and b"Log in with the token" in answer
        assert b" 401 " in answer or is_login_page, path


# People


def test_a_person_logs_in_from_elsewhere_and_out_again(remote):
    workdir, url = remote
    token = tokens.add(workdir, "anna", ("approve",))
    with httpx.Client(base_url=url, headers={"accept": "text/html"}) as browser:
        asked = browser.get("/runs/x?y=1")
        assert asked.headers["location"] == "/login?next=%2Fruns%2Fx%3Fy%3D1"
        form = {"token": token, "next": "/"}
        assert browser.post("/login", data=form).status_code == 403
        entered = browser.post("/login", data=form, headers={"origin": url})
        assert (entered.status_code, entered.headers["location"]) == (303, "/")
        assert "anna (token)" in browser.get("/").text
        browser.post("/logout", headers={"origin": url})
        assert browser.get("/").status_code == 303
    bearer = {"authorization": f"Bearer {token}"}
    assert httpx.get(f"{url}/api/openapi.json", headers=bearer).status_code == 200
    tokens.revoke(workdir, "anna")
    assert httpx.get(f"{url}/api/openapi.json", headers=bearer).status_code == 401


@pytest.mark.parametrize(
    ("origin", "host"),
    [
        ("http://evil.com", None),
        ("null", None),
        ("http://localhost:3000", None),
        (None, "evil.com"),
    ],
)
def test_a_foreign_page_gets_no_socket(home, origin, host):
    _, url = home
    headers = {"Host": host} if host else {}
    with pytest.raises(InvalidStatus) as caught:
        _connect_as(url, headers, origin)
    assert caught.value.response.status_code == 403
    polling = SOCKET.replace("transport=websocket", "transport=polling")
    with httpx.Client(headers={**headers, **({"origin": origin} if origin else {})}) as client:
        answer = client.get(url + polling)
    assert answer.status_code == 403
    assert not [name for name in answer.headers if name.startswith("access-control")]


def _connect_as(url, headers, origin):
    if "Host" not in headers:
        return socket_of(url, origin=origin)
    where = urlsplit(url)
    tcp = socket.create_connection((where.hostname, where.port), LONG_S)
    return connect(f"ws://{headers['Host']}{SOCKET}", sock=tcp, origin=origin)


def test_there_is_no_long_polling(home):
    answer = httpx.get(home[1] + SOCKET.replace("transport=websocket", "transport=polling"))
    assert answer.status_code == 400


def test_a_socket_is_closed_when_its_token_is_revoked(remote):
    workdir, url = remote
    token = tokens.add(workdir, "carl")
    with pytest.raises(InvalidStatus):
        socket_of(url)
    with socket_of(url, additional_headers={"authorization": f"Bearer {token}"}) as opened:
        assert opened.recv(LONG_S).startswith("0{")
        tokens.revoke(workdir, "carl")
        with pytest.raises(ConnectionClosed) as caught:
            _receive_all(opened)
        assert caught.value.rcvd.code == 1008


def _receive_all(opened) -> None:
    while True:
        opened.recv(LONG_S)


def test_a_socket_acts_only_on_pages_of_its_own_person(remote):
    workdir, url = remote
    bearers = {
        name: {"authorization": f"Bearer {tokens.add(workdir, name)}"} for name in ("dora", "emil")
    }
    html = httpx.get(url, headers=bearers["dora"]).text
    page = re.search(r"'client_id': '([0-9a-f-]+)'", html)[1]
    shake = {"client_id": page, "tab_id": "t", "document_id": "d", "next_message_id": 0}
    said = {name: _handshake(url, bearers[name], shake) for name in ("emil", "dora")}
    assert said == {"emil": "430[false]", "dora": "430[true]"}
    implicit = f"&client_id={page}&implicit_handshake=true&tab_id=t&document_id=e"
    refused = _connected(url, bearers["emil"], implicit)
    assert refused.startswith("44")
    assert _connected(url, bearers["dora"], implicit).startswith("40")


def _handshake(url, headers, shake) -> str:
    with socket_of(url, additional_headers=headers) as opened:
        opened.recv(LONG_S)
        opened.send("40")
        assert opened.recv(LONG_S).startswith("40{")
        opened.send("420" + json.dumps(["handshake", shake]))
        while not (answer := opened.recv(LONG_S)).startswith("43"):
            pass
        return answer


def _connected(url, headers, query) -> str:
    where = url.replace("http", "ws") + SOCKET + query
    with connect(where, additional_headers=headers) as opened:
        opened.recv(LONG_S)
        opened.send("40")
        return opened.recv(LONG_S)


def test_strange_messages_of_a_socket_harm_nobody(home):
    _, url = home
    for message in (
        '42["event"]',
        '42["event",1]',
        '42["event",{"client_id":[1]}]',
        '42["log",{}]',
    ):
        with socket_of(url) as opened:
            opened.recv(LONG_S)
            opened.send("40")
            opened.recv(LONG_S)
            opened.send(message)
    with socket_of(url) as opened:
        opened.recv(LONG_S)
        opened.send("4" + "x" * 2**21)
        with pytest.raises(ConnectionClosed):
            opened.recv(LONG_S)
    assert httpx.get(url).status_code == 200


# Users of this machine


def test_the_kernel_knows_whose_a_connection_is():
    assert peers.can_tell()
    for address, family in (("127.0.0.1", socket.AF_INET), ("::1", socket.AF_INET6)):
        with (
            socket.create_server((address, 0), family=family) as server,
            socket.create_connection(server.getsockname()[:2]) as client,
        ):
            ends = client.getsockname()[:2], server.getsockname()[:2]
            accepted, _ = server.accept()
            assert peers.user_of(*ends) == os.geteuid()
            assert peers.user_of((ends[0][0], 1), ends[1]) is None
            client.close()
            # The kernel has it still, and says that it is root's.
            assert peers.user_of(*ends) is None
            accepted.close()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_another_user_of_this_machine_needs_a_token(home):
    _, url = home
    request = ("GET /api/openapi.json HTTP/1.1", "Host: 127.0.0.1")
    with ExitStack() as stack:
        os.seteuid(65534)
        try:
            say = stack.enter_context(raw(url))
        finally:
            os.seteuid(0)
        assert b" 401 " in say(*request)
    with raw(url) as say:
        assert b" 200 " in say(*request)
