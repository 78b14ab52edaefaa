"""What went wrong, as a status and `{"problem", "remedy"}`: no stack trace, nothing internal."""

from collections.abc import Mapping

import msgspec
from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.routing import Match, Route

from lefleet.actions.people import NotPermitted
from lefleet.errors import BadInput, Conflict, Denied, LeFleetError, Unknown
from lefleet.records.border import Strict

JSON = "application/json"
_WORDS = {
    404: ("There is nothing at this address.", "What there is: /api/openapi.json"),
    405: ("This is not possible at this address.", "What is: /api/openapi.json"),
}


class Problem(Strict, frozen=True, kw_only=True):
    """Why a request was not carried out; nothing was changed."""

    problem: str
    remedy: str
    """What to do about it; may be empty."""


class NotJson(BadInput):
    """The body is of another type than it has to be."""


_STATUSES: tuple[tuple[type[LeFleetError], int], ...] = (
    (Unknown, 404),
    (NotJson, 415),
    (BadInput, 400),
    (NotPermitted, 403),
    (Denied, 403),
    (Conflict, 409),
)


def status_of(error: LeFleetError) -> int:
    """Where it is nobody's mistake who asks, 500."""
    return next((status for kind, status in _STATUSES if isinstance(error, kind)), 500)


def answer_errors(app: FastAPI) -> None:
    """Let an app answer every error in this form."""

    # Asynchronous, so that an answer waits for no thread.
    async def told(_: Request, error: Exception) -> Response:
        if not isinstance(error, LeFleetError):
            raise error
        return _answer(status_of(error), error.problem, error.remedy)

    async def not_valid(_: Request, error: Exception) -> Response:
        if not isinstance(error, RequestValidationError):
            raise error
        first = error.errors()[0]
        return _answer(400, f"{'.'.join(map(str, first['loc'][1:]))}: {first['msg']}.")

    async def refused(request: Request, error: Exception) -> Response:
        if not isinstance(error, HTTPException):
            raise error
        problem, remedy = _WORDS.get(error.status_code, (error.detail, ""))
        if error.status_code == 405:
            return _answer(405, problem, remedy, {"Allow": _methods(request)})
        return _answer(error.status_code, problem, remedy, error.headers)

    async def failed(_: Request, __: Exception) -> Response:
        # The exception itself is raised on to the server, which logs it.
        return _answer(500, "The dashboard could not answer this.", "Its log says why.")

    app.add_exception_handler(LeFleetError, told)
    app.add_exception_handler(RequestValidationError, not_valid)
    app.add_exception_handler(HTTPException, refused)
    app.add_exception_handler(Exception, failed)


def _methods(request: Request) -> str:
    """All that is possible at an address. Starlette names those of one endpoint only."""
    found = {
        method
        for route in request.app.routes
        if isinstance(route, Route) and route.matches(request.scope)[0] != Match.NONE
        for method in route.methods or ()
    }
    return ", ".join(sorted(found))


def _answer(
    status: int, problem: str, remedy: str = "", headers: Mapping[str, str] | None = None
) -> Response:
    body = msgspec.json.encode(Problem(problem=problem, remedy=remedy))
    return Response(body, status, headers=headers, media_type=JSON)
