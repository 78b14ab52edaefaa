"""The guard against whoever wants to get around it."""

import asyncio
import json
import re
from urllib.parse import quote, urlencode

import pytest

from lefleet.actions.people import system_user
from lefleet.dash import guard as guard_module
from lefleet.dash import sessions, tokens
from lefleet.dash.sessions import AttemptLimiter, LoginSessions
from lefleet.dash.tokens import TokenFile
from tests.dash.asking import HOST, ORIGIN, App, Socket, ask, asked, guard

PAGE = ("accept", "text/html,application/xhtml+xml")
FORM = ("content-type", "application/x-www-form-urlencoded")
OTHER_SITE = ("sec-fetch-site", "cross-site")


@pytest.fixture
def app():
    return App()


@pytest.fixture
def anna(tmp_path):
    """A token."""
    return tokens.add(tmp_path, "anna", ("approve",))


@pytest.fixture
def strict(tmp_path, app, anna):
    """Everybody needs a token."""
    return guard(tmp_path, app)


@pytest.fixture
def home(tmp_path, app):
    """Nobody needs a token."""
    return guard(tmp_path, app, users=None)


def log_in(to, token, *headers, origin=ORIGIN, following="/", **more):
    body = urlencode({"token": token, "next": following}).encode()
    length = ("content-length", str(len(body)))
    given = [("origin", origin), FORM, length, *headers]
    return ask(to, "/login", *given, method="POST", body=[body], **more)


def cookie_of(answer) -> tuple[str, str]:
    return ("cookie", answer["set-cookie"].partition(";")[0])


# Host


@pytest.mark.parametrize(
    "host",
    [
        "evil.com",
        "evil.com:8765",
        "127.0.0.1.evil.com",
        "localhost.evil.com",
        "localhost.",
        "127.0.0.1.",
        "user@127.0.0.1",
        "evil.com@127.0.0.1",
        "127.0.0.1@evil.com",
        "127.0.0.1:8765@evil.com",
        "127.0.0.1, evil.com",
        "127.0.0.1/evil",
        "127.0.0.1:8765:1",
        "127.0.0.1:",
        "127.0.0.1:x",
        "127.0.0.1:999999",
        "0.0.0.0",
        "0",
        "127.1",
        "0x7f.0.0.1",
        "2130706433",
        "127.0.0.2",
        "10.0.0.5",
        "::1",
        "[::1",
        "[::1]evil.com",
        "[::ffff:10.0.0.5]",
        "[::1%25eth0]",
        "",
        " ",
        "loc\xe4lhost",
        "\u212aocalhost".encode().decode("latin-1"),
    ],
)
def test_other_hosts_reach_nothing(home, app, host):
    for path in ("/", "/login", "/favicon.ico", "/api/v1/runs"):
        assert ask(home, path, host=host).status == 403
    assert app.scopes == []


@pytest.mark.parametrize(
    "host",
    [
        *("127.0.0.1:8765", "127.0.0.1", "localhost:8765", "LOCALHOST:8765", "LocalHost"),
        *("[::1]:8765", "[::1]", "[0:0:0:0:0:0:0:1]:8765"),
        "localhost:9000",  # through an SSH tunnel
    ],
)
def test_own_names_are_answered(home, host):
    assert ask(home, host=host).body == system_user().name


def test_a_request_without_a_host_or_with_two_is_refused(home, app):
    assert ask(home, host=None).status == 400
    assert ask(home, "/", ("host", "evil.com")).status == 400
    assert ask(home, "/", ("host", HOST)).status == 400
    assert app.scopes == []


def test_bound_to_all_addresses_any_of_them_is_answered_but_no_foreign_name(tmp_path, app, anna):
    everywhere = guard(tmp_path, app, bound="0.0.0.0")
    bearer = ("authorization", f"Bearer {anna}")
    for host in ("10.0.0.5:8765", "[fe80::1]:8765", "localhost"):
        assert ask(everywhere, "/", bearer, host=host).status == 200
    for host in ("evil.com", "0.0.0.0:8765", "[::]:8765", "10.0.0.5.evil.com", "1.2.3"):
        assert ask(everywhere, "/", bearer, host=host).status == 403


def test_names_that_a_person_allowed_are_answered_and_their_scheme_is_known(tmp_path, app, anna):
    named = guard(tmp_path, app, named=("https://Lefleet.Lab:8443", "gpu.lab"))
    for host, origin in (("lefleet.lab", "https://lefleet.lab"), ("gpu.lab", "http://gpu.lab")):
        assert log_in(named, anna, origin=origin, host=host).status == 303
        wrong = origin.replace("https", "http") if "https" in origin else "https://gpu.lab"
        assert log_in(named, anna, origin=wrong, host=host).status == 403


# Origin


@pytest.mark.parametrize(
    "origin",
    [
        "http://evil.com",
        "null",
        "",
        "https://127.0.0.1:8765",
        "http://127.0.0.1:3000",
        "http://127.0.0.1",
        "http://localhost:8765",
        "http://127.0.0.1:8765/",
        "http://127.0.0.1:8765.evil.com",
        "http://127.0.0.1:8765 http://evil.com",
        "file://",
        "chrome-extension://abc",
    ],
)
@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/"),
        ("POST", "/api/v1/runs"),
        ("GET", "/_nicegui_ws/socket.io/?EIO=4&transport=polling"),
        ("POST", "/_nicegui_ws/socket.io/?EIO=4&transport=polling&sid=x"),
        ("OPTIONS", "/api/v1/runs"),
    ],
)
def test_other_origins_reach_nothing(home, app, origin, method, path):
    answer = ask(home, path, ("origin", origin), method=method)
    assert answer.status == 403
    assert app.scopes == []
    assert not [key for key, _ in answer.headers if key.startswith("access-control")]


def test_two_origins_are_refused(home, app):
    assert ask(home, "/", ("origin", ORIGIN), ("origin", "http://evil.com")).status == 400
    assert app.scopes == []


def test_the_own_origin_is_answered_whatever_its_case(home):
    assert ask(home, "/", ("origin", ORIGIN.upper())).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE", "TRACE", "post", "MKCOL"])
def test_what_changes_something_says_where_it_comes_from(home, app, method):
    refused = ask(home, "/api/v1/runs", method=method)
    assert refused.status == 403
    assert f"Origin: {ORIGIN}" in json.loads(refused.body)["remedy"]
    assert app.scopes == []
    assert ask(home, "/api/v1/runs", ("origin", ORIGIN), method=method).status == 200


def test_a_token_replaces_the_origin_of_a_change(strict, anna):
    bearer = ("authorization", f"Bearer {anna}")
    assert ask(strict, "/api/v1/runs", bearer, method="POST").status == 200
    evil = ("origin", "http://evil.com")
    assert ask(strict, "/api/v1/runs", bearer, evil, method="POST").status == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
@pytest.mark.parametrize(
    ("mode", "dest"),
    [("no-cors", "script"), ("no-cors", "image"), ("navigate", "iframe"), ("cors", "empty")],
)
def test_what_another_site_embeds_is_refused(home, app, site, mode, dest):
    how = (("sec-fetch-site", site), ("sec-fetch-mode", mode), ("sec-fetch-dest", dest))
    assert ask(home, "/api/v1/runs", *how).status == 403
    assert app.scopes == []


def test_another_site_may_link_to_a_page_but_not_send_a_form(home):
    link = (OTHER_SITE, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"))
    assert ask(home, "/runs/night", *link).status == 200
    assert ask(home, "/runs/night", *link, ("origin", ORIGIN), method="POST").status == 403


# Tokens and sessions


@pytest.mark.parametrize(
    "path",
    [
        *("/", "/runs/night", "/api/v1/runs", "/api/openapi.json", "/_nicegui/x.js", "/logout"),
        *("//login", "/login/", "/login/..", "/login/../api/v1/runs", "/Login", "/LOGIN"),
        *("/login;x", "/login\0", "/login ", "/login\\..", "/./login", "/x/../login"),
        *("/favicon.ico/..", "//favicon.ico", "/favicon.ico/", "/favicon.ico\n", ""),
    ],
)
def test_without_a_token_nothing_reaches_the_app(strict, app, path):
    for method in ("GET", "HEAD", "POST", "OPTIONS", "DELETE"):
        answer = ask(strict, path, ("origin", ORIGIN), method=method)
        assert answer.status == 401
        assert set(json.loads(answer.body)) == {"problem", "remedy"}
    assert app.scopes == []


@pytest.mark.parametrize(
    ("path", "query"),
    [("/login", "?next=/x"), ("/login", "?next=//evil.com"), ("/favicon.ico", "")],
)
def test_the_login_page_and_the_icon_need_no_token_and_do_not_reach_the_app(
    strict, app, path, query
):
    assert ask(strict, path + query).status == 200
    assert ask(strict, path + query, method="HEAD").status == 200
    assert app.scopes == []


@pytest.mark.parametrize(
    "given",
    [
        *("", "Bearer", "Bearer ", "Bearer lefleet_x", "Basic abc", "lefleet_x", "Bearer \0"),
        "Bearer " + "x" * 60000,
    ],
)
def test_other_tokens_are_refused(strict, app, given):
    answer = ask(strict, "/api/v1/runs", ("authorization", given))
    assert (answer.status, answer["www-authenticate"]) == (401, "Bearer")
    assert app.scopes == []


def test_a_token_names_its_person_whatever_the_case_of_its_scheme(strict, app, anna):
    for scheme in ("Bearer", "bearer", "BEARER"):
        assert ask(strict, "/", ("authorization", f"{scheme} {anna}")).body == "anna (token)"
    assert ask(strict, "/", ("Authorization", f"Bearer {anna}")).body == "anna (token)"
    person = app.scopes[-1]["lefleet.person"]
    assert person.may == ("approve",)


def test_two_tokens_in_one_request_are_refused(strict, app, anna):
    both = (("authorization", f"Bearer {anna}"), ("authorization", "Bearer x"))
    assert ask(strict, "/", *both).status == 400
    assert ask(strict, "/", *reversed(both)).status == 400
    assert app.scopes == []


def test_a_wrong_token_is_refused_even_where_none_is_needed(home, app):
    assert ask(home, "/", ("authorization", "Bearer x")).status == 401
    assert app.scopes == []


def test_secrets_and_claims_of_proxies_do_not_reach_the_app(strict, app, anna):
    claims = [("x-forwarded-prefix", '"><script>'), ("forwarded", "for=x"), ("via", "1.1 x")]
    ask(strict, "/", ("authorization", f"Bearer {anna}"), ("cookie", "a=b"), *claims, ("x-a", "b"))
    assert app.scopes[0]["headers"] == [(b"host", HOST.encode()), (b"x-a", b"b")]


def test_a_person_logs_in_and_out(strict, app, anna):
    answer = log_in(strict, anna, following="/runs/night?tab=2")
    assert (answer.status, answer["location"]) == (303, "/runs/night?tab=2")
    kept = answer["set-cookie"]
    assert anna not in kept
    assert {"HttpOnly", "SameSite=Strict", "Path=/"} <= set(kept.split("; "))
    assert "Secure" not in kept
    assert ask(strict, "/", cookie_of(answer)).body == "anna (token)"
    asks = ask(strict, "/logout", cookie_of(answer), PAGE)
    assert "anna (token)" in asks.body
    assert ask(strict, "/", cookie_of(answer)).status == 200
    assert ask(strict, "/logout", cookie_of(answer), method="POST").status == 403
    ended = ask(strict, "/logout", cookie_of(answer), ("origin", ORIGIN), method="POST")
    assert (ended["location"], "Max-Age=0" in ended["set-cookie"]) == ("/login", True)
    assert ask(strict, "/", cookie_of(answer)).status == 401


def test_behind_tls_the_cookie_is_only_for_tls_and_this_host(tmp_path, app, anna):
    named = guard(tmp_path, app, named=("https://lefleet.lab",))
    answer = log_in(named, anna, origin="https://lefleet.lab", host="lefleet.lab")
    assert answer["set-cookie"].startswith("__Host-lefleet=")
    assert answer["set-cookie"].endswith("; Secure")


def test_a_login_from_another_site_is_refused(strict, anna):
    assert log_in(strict, anna, origin="http://evil.com").status == 403
    body = urlencode({"token": anna}).encode()
    length = ("content-length", str(len(body)))
    assert ask(strict, "/login", FORM, length, method="POST", body=[body]).status == 403


def test_a_session_id_that_a_client_chose_is_never_taken(strict, anna):
    planted = ("cookie", "lefleet_8765=chosen")
    assert ask(strict, "/", planted).status == 401
    answer = log_in(strict, anna, planted)
    assert "chosen" not in answer["set-cookie"]
    assert ask(strict, "/", planted).status == 401


def test_a_new_login_ends_the_old_session(strict, anna):
    first = log_in(strict, anna)
    second = log_in(strict, anna, cookie_of(first))
    assert ask(strict, "/", cookie_of(first)).status == 401
    assert ask(strict, "/", cookie_of(second)).status == 200


def test_the_token_is_no_session_and_the_session_no_token(strict, anna):
    session = cookie_of(log_in(strict, anna))[1].partition("=")[2]
    assert ask(strict, "/", ("cookie", f"lefleet_8765={anna}")).status == 401
    assert ask(strict, "/", ("authorization", f"Bearer {session}")).status == 401


def test_two_cookies_of_the_name_are_nobodys(strict, anna):
    kept = cookie_of(log_in(strict, anna))[1]
    assert ask(strict, "/", ("cookie", f"{kept}; lefleet_8765=x")).status == 401
    assert ask(strict, "/", ("cookie", kept), ("cookie", "lefleet_8765=x")).status == 401
    assert ask(strict, "/", ("cookie", f"other=1; {kept};x")).status == 200


def test_dashboards_on_other_ports_have_other_cookies(strict, anna):
    kept = cookie_of(log_in(strict, anna))
    assert ask(strict, "/", kept, host="127.0.0.1:9999").status == 401


def test_a_revoked_token_ends_its_sessions_at_once(tmp_path, strict, app, anna):
    kept = cookie_of(log_in(strict, anna))
    ask(strict, "/", kept)
    is_valid = app.scopes[-1]["lefleet.is_valid"]
    assert is_valid()
    tokens.revoke(tmp_path, "anna")
    assert not is_valid()
    assert ask(strict, "/", kept).status == 401
    assert ask(strict, "/", ("authorization", f"Bearer {anna}")).status == 401
    again = tokens.add(tmp_path, "anna")
    assert ask(strict, "/", kept).status == 401
    assert ask(strict, "/", ("authorization", f"Bearer {again}")).status == 200


def test_a_page_asks_to_log_in_and_comes_back(strict):
    answer = ask(strict, "/runs/a b?x=1&y=%2F", PAGE)
    assert answer.status == 303
    assert answer["location"] == "/login?next=" + quote("/runs/a%20b?x=1&y=%2F", safe="")
    page = ask(strict, answer["location"], PAGE)
    assert 'value="/runs/a%20b?x=1&amp;y=%2F"' in page.body


def test_a_link_on_another_site_is_loaded_again_so_that_the_cookie_comes_along(strict):
    link = (OTHER_SITE, ("sec-fetch-mode", "navigate"), ("sec-fetch-dest", "document"))
    answer = ask(strict, "/runs/night", PAGE, *link)
    assert answer.status == 200
    assert 'http-equiv="refresh" content="0"' in answer.body


@pytest.mark.parametrize(
    "following",
    [
        *("//evil.com", "http://evil.com", "/\\evil.com", "\\\\evil.com", "evil.com", ""),
        *("/\r\nset-cookie: a=b", "/\tx", "javascript:alert(1)", "/ä", "/login", "/logout?x"),
    ],
)
def test_after_the_login_nobody_is_sent_elsewhere(strict, anna, following):
    assert log_in(strict, anna, following=following)["location"] == "/"
    page = ask(strict, f"/login?next={quote(following)}")
    assert 'name="next" value="/"' in page.body


def test_texts_on_our_own_pages_are_not_markup(tmp_path, app):
    text = tokens.add(tmp_path, "<script>alert(1)</script>")
    to = guard(tmp_path, app)
    kept = cookie_of(log_in(to, text))
    assert "<script" not in ask(to, "/logout", kept, PAGE).body
    assert "<script" not in ask(to, '/login?next=/"><script>x</script>').body


# Brute force


def test_who_tries_too_often_has_to_wait_even_with_the_right_token(strict, anna):
    statuses = [log_in(strict, f"lefleet_{number}").status for number in range(12)]
    assert statuses == [401] * 10 + [429] * 2
    answer = log_in(strict, anna)
    assert (answer.status, answer["retry-after"]) == (429, "10")
    assert answer.all("set-cookie") == []
    assert log_in(strict, anna, client=("10.0.0.9", 1)).status == 303


def test_wrong_tokens_in_headers_are_limited_and_right_ones_are_not(strict, anna):
    wrong = ("authorization", "Bearer lefleet_x")
    assert [ask(strict, "/", wrong).status for _ in range(12)] == [401] * 10 + [429] * 2
    assert ask(strict, "/", ("authorization", f"Bearer {anna}")).status == 200


def test_behind_a_proxy_on_this_machine_each_person_has_attempts_of_their_own(strict, anna):
    for _ in range(12):
        log_in(strict, "x", ("x-forwarded-for", "8.8.8.8, 10.0.0.1"))
    assert log_in(strict, anna, ("x-forwarded-for", "8.8.8.8, 10.0.0.1")).status == 429
    assert log_in(strict, anna, ("x-forwarded-for", "10.0.0.1, 10.0.0.2")).status == 303
    far = ("10.1.1.1", 1)
    for number in range(12):
        log_in(strict, "x", ("x-forwarded-for", f"10.0.1.{number}"), client=far)
    assert log_in(strict, anna, client=far).status == 429


def test_attempts_come_back_with_time_and_their_memory_is_limited():
    now = [0.0]
    limiter = AttemptLimiter(lambda: now[0])
    assert [limiter.allows("10.0.0.1") for _ in range(11)] == [True] * 10 + [False]
    now[0] = 5.0
    assert [limiter.allows("10.0.0.1") for _ in range(2)] == [True, False]
    for number in range(3000):
        limiter.allows(f"10.1.{number // 250}.{number % 250}")
    assert len(limiter._buckets) == sessions._REMEMBERED


def test_addresses_of_one_ipv6_network_count_as_one():
    limiter = AttemptLimiter(lambda: 0.0)
    tries = [limiter.allows(f"2001:db8:1:2::{number}") for number in range(11)]
    assert tries == [True] * 10 + [False]
    assert limiter.allows("2001:db8:1:3::1")
    assert limiter.allows("::ffff:10.0.0.1")
    assert limiter.allows("not an address")


def test_sessions_end_by_age_and_without_use_and_are_limited_in_number(tmp_path, anna):
    now = [0.0]
    opened = TokenFile(tmp_path)
    table = LoginSessions(opened, lambda: now[0])
    token = opened.find(anna)
    used, idle = table.begin(token), table.begin(token)
    for day in range(31):
        now[0] = day * 24 * 3600.0
        assert table.find(used) == token
    assert table.find(idle) is None
    now[0] += 1
    assert table.find(used) is None
    many = [table.begin(token) for _ in range(30)]
    assert [table.find(one) is not None for one in many] == [False] * 10 + [True] * 20
    tokens.revoke(tmp_path, "anna")
    tokens.add(tmp_path, "ben")
    table.begin(next(iter(opened._current().values())))
    assert len(table._sessions) == 1


# Bodies


def test_a_body_arrives_whole_and_one_that_is_too_large_not_at_all(home, app):
    own, chunked = ("origin", ORIGIN), ("transfer-encoding", "chunked")
    parts = [b"a" * 2**20, b"b" * 2**20]
    assert ask(home, "/x", own, chunked, method="POST", body=parts).status == 200
    assert app.bodies == [b"".join(parts)]
    answer = ask(home, "/x", own, chunked, method="POST", body=[*parts, b"c"])
    assert (answer.status, len(app.bodies)) == (413, 1)
    for length in ("2097153", "9" * 50, "9" * 5000, "-1", "1e9", "", "\xb2"):
        answer = ask(home, "/x", own, ("content-length", length), method="POST")
        assert answer.status == 413
    twice = (("content-length", "1"), ("content-length", "2"))
    assert ask(home, "/x", own, *twice, method="POST").status == 400
    assert len(app.bodies) == 1


def test_a_login_form_that_is_too_large_or_strange_is_refused(strict):
    own = ("origin", ORIGIN)
    big = ("content-length", "4097")
    assert ask(strict, "/login", own, big, method="POST", body=[b"x"]).status == 413
    chunked = ("transfer-encoding", "chunked")
    for body in (b"&".join([b"a=b"] * 50), b"\xff\x00", b"token", b"token=%ff%00"):
        assert ask(strict, "/login", own, chunked, method="POST", body=[body]).status == 401
    assert ask(strict, "/login", own, method="PUT").status == 405


# Answers


def test_every_answer_has_the_headers_whatever_the_app_sets(tmp_path):
    to = guard(
        tmp_path,
        App(
            (b"Content-Security-Policy", b"default-src *"),
            (b"x-frame-options", b"ALLOWALL"),
            (b"access-control-allow-origin", b"http://evil.com"),
            (b"Access-Control-Allow-Credentials", b"true"),
        ),
        users=None,
    )
    answers = [ask(to, path) for path in ("/", "/login", "/favicon.ico", "/logout")]
    answers += [ask(to, host="evil.com"), ask(to, method="POST"), ask(to, host=None)]
    for answer in answers:
        assert answer["x-content-type-options"] == "nosniff"
        assert answer["x-frame-options"] == "DENY"
        assert answer["referrer-policy"] == "same-origin"
        assert answer["cross-origin-opener-policy"] == "same-origin"
        assert answer["cross-origin-resource-policy"] == "same-origin"
        assert answer["permissions-policy"]
        assert answer["cache-control"] == "no-store"
        assert not [key for key, _ in answer.headers if key.lower().startswith("access-control")]
        policy = answer["content-security-policy"]
        assert "default-src 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert "'unsafe-inline'" not in re.search(r"script-src [^;]*", policy)[0]


def test_every_answer_has_a_nonce_of_its_own_which_the_app_knows(home, app):
    nonces = [re.search("'nonce-([^']+)'", ask(home)["content-security-policy"])[1] for _ in "12"]
    assert nonces == [one["lefleet.nonce"] for one in app.scopes]
    assert len(set(nonces)) == 2


def test_an_answer_may_say_itself_how_long_it_is_kept(tmp_path):
    to = guard(tmp_path, App((b"Cache-Control", b"private, max-age=60")), users=None)
    assert ask(to)["Cache-Control"] == "private, max-age=60"


def test_a_refusal_is_a_page_for_a_person_and_json_for_a_program(home):
    assert "<h1>" in ask(home, "/", PAGE, host="evil.com").body
    assert "problem" in json.loads(ask(home, "/", host="evil.com").body)
    assert "problem" in json.loads(ask(home, "/api/v1/runs", PAGE, host="evil.com").body)


# This machine


@pytest.mark.parametrize(
    "header", ["x-forwarded-for", "X-Forwarded-For", "forwarded", "via", "x-real-ip"]
)
def test_what_a_proxy_passes_on_does_not_come_from_this_user(home, app, header):
    assert ask(home, "/", (header, "10.0.0.5")).status == 401
    assert app.scopes == []


def test_a_token_counts_also_where_none_is_needed(tmp_path, home, anna):
    assert ask(home, "/", ("authorization", f"Bearer {anna}")).body == "anna (token)"
    assert ask(home, "/", ("x-forwarded-for", "a"), cookie_of(log_in(home, anna))).status == 200


def test_who_needs_no_token_is_not_asked_for_one(home):
    assert ask(home, "/login?next=/runs", PAGE)["location"] == "/runs"
    assert ask(home, "/logout", PAGE)["location"] == "/"


# Websockets


def test_a_websocket_needs_a_person_the_right_host_and_no_other_origin(strict, app, anna):
    bearer = ("authorization", f"Bearer {anna}")
    refused = [
        (HOST, ()),
        ("evil.com", (bearer,)),
        (HOST, (bearer, ("origin", "http://evil.com"))),
        (HOST, (bearer, ("origin", "null"))),
        (HOST, (bearer, OTHER_SITE)),
        (HOST, (bearer, ("host", HOST))),
        (HOST, (("authorization", "Bearer x"),)),
        (HOST, (("cookie", f"lefleet_8765={anna}"),)),
    ]

    async def attempt():
        for host, headers in refused:
            assert await Socket(strict, *headers, host=host).end() == ["websocket.close"]

    asyncio.run(attempt())
    assert app.scopes == []


def test_on_loopback_a_foreign_page_gets_no_websocket(home, app):
    async def attempt():
        for origin in ("http://evil.com", "http://localhost:3000", "null"):
            assert await Socket(home, ("origin", origin)).end() == ["websocket.close"]

    asyncio.run(attempt())
    assert app.scopes == []


@pytest.mark.parametrize("by", ["session", "bearer"])
def test_an_open_websocket_is_closed_when_its_token_is_revoked(
    tmp_path, strict, app, anna, monkeypatch, by
):
    monkeypatch.setattr(guard_module, "_WATCH_S", 0.01)
    session = cookie_of(log_in(strict, anna))
    header = session if by == "session" else ("authorization", f"Bearer {anna}")

    async def attempt():
        one = Socket(strict, header, ("origin", ORIGIN))
        one.say("before")
        while not app.messages:
            await asyncio.sleep(0.001)
        tokens.revoke(tmp_path, "anna")
        return await one.end()

    assert asyncio.run(attempt()) == ["websocket.accept", "websocket.close"]
    assert [one["text"] for one in app.messages] == ["before"]


def test_no_message_reaches_the_app_after_the_logout_even_before_the_next_look(
    strict, app, anna, monkeypatch
):
    monkeypatch.setattr(guard_module, "_WATCH_S", 3600.0)
    session = cookie_of(log_in(strict, anna))

    async def attempt():
        one = Socket(strict, session)
        one.say("before")
        while not app.messages:
            await asyncio.sleep(0.001)
        await asked(strict, "/logout", session, ("origin", ORIGIN), method="POST")
        one.say("after")
        await one.end()

    asyncio.run(attempt())
    assert [one["text"] for one in app.messages] == ["before"]
