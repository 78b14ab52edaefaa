"""Answers that the guard gives itself, and the headers of every answer."""

import json
from html import escape

from starlette.types import Message, Send

_FIXED: dict[bytes, bytes] = {
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"DENY",
    # With no-referrer, browsers send `Origin: null` with forms, which the guard refuses.
    b"referrer-policy": b"same-origin",
    b"cross-origin-opener-policy": b"same-origin",
    b"cross-origin-resource-policy": b"same-origin",
    b"permissions-policy": b"camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def content_policy(nonce: str) -> bytes:
    """What a page may load. NiceGUI's templates are compiled in the browser: hence unsafe-eval."""
    return (
        "default-src 'self'; "
        f"script-src 'nonce-{nonce}' 'strict-dynamic' 'unsafe-eval'; "
        "style-src 'self' 'unsafe-inline'; img-src 'self' data: blob:; font-src 'self' data:; "
        "connect-src 'self'; object-src 'none'; base-uri 'none'; frame-ancestors 'none'; "
        "form-action 'self'"
    ).encode()


def with_headers(send: Send, nonce: str) -> Send:
    """Sends with the headers that every answer has, whatever the app has set."""
    fixed = {**_FIXED, b"content-security-policy": content_policy(nonce)}

    async def sending(message: Message) -> None:
        if message["type"] == "http.response.start":
            own = [
                (name, value)
                for name, value in message.get("headers", ())
                # No other origin may read an answer, whatever NiceGUI's socket server allows.
                if name.lower() not in fixed and not name.lower().startswith(b"access-control-")
            ]
            if not any(name.lower() == b"cache-control" for name, _ in own):
                own.append((b"cache-control", b"no-store"))
            message = {**message, "headers": [*own, *fixed.items()]}
        await send(message)

    return sending


async def answer(
    send: Send, status: int, body: bytes, content_type: str, *headers: tuple[str, str]
) -> None:
    """A whole answer."""
    named = [("content-type", content_type), ("content-length", str(len(body))), *headers]
    encoded = [(name.encode(), value.encode("latin-1")) for name, value in named]
    await send({"type": "http.response.start", "status": status, "headers": encoded})
    await send({"type": "http.response.body", "body": body})


async def answer_page(send: Send, status: int, page: str, *headers: tuple[str, str]) -> None:
    await answer(send, status, page.encode(), "text/html; charset=utf-8", *headers)


async def redirect(send: Send, path: str, *headers: tuple[str, str]) -> None:
    await answer(send, 303, b"", "text/plain", ("location", path), *headers)


async def answer_problem(
    send: Send,
    status: int,
    problem: str,
    remedy: str,
    *headers: tuple[str, str],
    as_page: bool,
) -> None:
    """A refusal, for a person or for a program."""
    if as_page:
        words = f"<h1>{escape(problem)}</h1><p>{escape(remedy)}</p>"
        await answer_page(send, status, page("Refused", words), *headers)
    else:
        body = json.dumps({"problem": problem, "remedy": remedy}).encode()
        await answer(send, status, body, "application/json", *headers)


def page(title: str, body: str, head: str = "") -> str:
    """A page of our own, that needs no script and nothing else from the server."""
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>{escape(title)} · LeFleet</title>
{head}<style>{_STYLE}</style>
</head>
<body><main>{body}</main></body>
</html>
"""


def login_page(following: str, problem: str = "") -> str:
    """Asks for a token; a password manager can keep it."""
    alert = f'<p class="problem" role="alert">{escape(problem)}</p>' if problem else ""
    return page(
        "Log in",
        f"""
<h1>LeFleet</h1>
<p>Log in with the token that you were given.</p>
{alert}
<form method="post" action="/login">
<input type="hidden" name="next" value="{escape(following)}">
<input name="username" value="token" autocomplete="username" hidden>
<label for="token">Token</label>
<input id="token" name="token" type="password" autocomplete="current-password" required autofocus
 autocapitalize="none" autocorrect="off" spellcheck="false" placeholder="lefleet_…">
<button>Log in</button>
</form>
<p class="hint">No token yet? Whoever runs this dashboard makes one with<br>
<code>lefleet dash token add NAME</code><br>
and the <code>--workdir</code> that it was started with.</p>
""",
    )


def logout_page(name: str) -> str:
    """Asks once more: a browser may load a link before anybody clicks it."""
    return page(
        "Log out",
        f"""
<h1>LeFleet</h1>
<p>You are logged in as {escape(name)}.</p>
<form method="post" action="/logout"><button>Log out</button></form>
<p class="hint"><a href="/">Back to the dashboard</a></p>
""",
    )


def reload_page() -> str:
    """Loads the same address again, now as a link of our own: with the cookie, which a browser
    keeps back when a link on another site is followed."""
    return page("Loading", "<p>Loading …</p>", '<meta http-equiv="refresh" content="0">\n')


ICON = b"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 32 32">
<path d="M24.5 7.5a12 12 0 1 0 0 17" fill="none" stroke="#0b62bd" stroke-width="6"/></svg>
"""

_STYLE = """
:root { --bg: #f6f7f9; --surface: #fff; --ink: #16202c; --muted: #52606f; --line: #d9dfe6;
  --accent: #0b62bd; --on-accent: #fff; --bad: #b3261e; }
@media (prefers-color-scheme: dark) {
  :root { --bg: #0e1318; --surface: #161c23; --ink: #e8edf2; --muted: #a3b0bd; --line: #303a45;
    --accent: #7ab8ff; --on-accent: #06182b; --bad: #ff9488; }
}
* { box-sizing: border-box; }
body { margin: 0; min-height: 100vh; display: grid; place-items: center; padding: 1rem;
  font: 16px/1.5 system-ui, sans-serif; color: var(--ink); background: var(--bg); }
main { width: 100%; max-width: 24rem; padding: 2rem 1.5rem; background: var(--surface);
  border: 1px solid var(--line); border-radius: 12px; overflow-wrap: anywhere; }
h1 { margin: 0 0 .5rem; font-size: 1.4rem; line-height: 1.25; }
p { margin: 0 0 1rem; }
label { display: block; margin-bottom: .25rem; font-weight: 600; }
input, button { width: 100%; font: inherit; padding: .7rem .8rem; border-radius: 8px; }
input { color: inherit; background: var(--bg); border: 1px solid var(--muted); }
button { margin-top: 1rem; border: 0; font-weight: 600; cursor: pointer;
  color: var(--on-accent); background: var(--accent); }
:focus-visible { outline: 3px solid var(--accent); outline-offset: 2px; }
a { color: var(--accent); }
code { font-size: .9em; }
.problem { color: var(--bad); font-weight: 600; }
.hint { margin: 1.5rem 0 0; font-size: .875rem; color: var(--muted); }
"""
