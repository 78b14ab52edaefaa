"""TypedRoutes with typed bodies and answers, and the OpenAPI description that is made of them.

FastAPI describes and checks what is in addresses. Bodies and answers are msgspec structs, which it
does not know: they are decoded, encoded and described here.
"""

from collections.abc import Callable
from functools import wraps
from typing import Any, NamedTuple, get_type_hints

import msgspec
from fastapi import Depends, FastAPI, Request, Response
from fastapi.openapi.utils import get_openapi

from lefleet.dash.api.errors import JSON, NotJson, Problem
from lefleet.records import decode

_REF = "#/components/schemas/{name}"
_PROBLEMS = {
    400: "The request is not valid; `problem` names what is wrong with it.",
    401: "Who asks is not known: send a token.",
    403: "Who asks may not do this, the constitution denies it, or another site asks.",
    404: "What was named does not exist.",
    409: "Somebody else did something different in the meantime, or is still at it.",
    413: "The body is too large.",
    415: "The body is not JSON.",
    429: "Too many wrong tokens were sent from there.",
    500: "The dashboard could not do it, for instance because a disk is full.",
}
_ALWAYS, _OF_BODY = (400, 401, 403, 429, 500), (413, 415)
_TOKEN = {"type": "http", "scheme": "bearer", "description": "lefleet dash token add NAME"}


class _Endpoint(NamedTuple):
    method: str
    path: str
    takes: Any
    """Type of the body; None without one."""
    gives: Any

    def statuses(self) -> tuple[int, ...]:
        named = (404,) if "{" in self.path else ()
        differs = () if self.method == "GET" else (409,)
        of_body = _OF_BODY if self.takes is not None else ()
        return tuple(sorted({*_ALWAYS, *named, *differs, *of_body}))


class TypedRoutes:
    """Adds endpoints to an app, below `prefix`; `description` tells of them.

    @routes.get("/runs/{run}")
    def run(run: str) -> RunDetail: ...

    A body is the parameter `body`, of the type that `body_of` reads.
    """

    def __init__(self, app: FastAPI, prefix: str) -> None:
        self._app, self._prefix = app, prefix
        self._all: list[_Endpoint] = []

    def get[**P, A](self, path: str) -> Callable[[Callable[P, A]], Callable[P, A]]:
        return self._added("GET", path)

    def post[**P, A](self, path: str) -> Callable[[Callable[P, A]], Callable[P, A]]:
        return self._added("POST", path)

    def put[**P, A](self, path: str) -> Callable[[Callable[P, A]], Callable[P, A]]:
        return self._added("PUT", path)

    def _added[**P, A](self, method: str, path: str) -> Callable[[Callable[P, A]], Callable[P, A]]:
        def add(function: Callable[P, A]) -> Callable[P, A]:
            @wraps(function)
            def answering(*args: P.args, **kwargs: P.kwargs) -> Response:
                return Response(msgspec.json.encode(function(*args, **kwargs)), media_type=JSON)

            where = f"{self._prefix}{path}"
            self._app.add_api_route(
                where,
                answering,
                methods=[method],
                response_model=None,
                operation_id=function.__name__,
                tags=[path.split("/")[1]],
            )
            types = get_type_hints(function)
            found = _Endpoint(method, where, types.get("body"), types["return"])
            self._all.append(found)
            return function

        return add

    def description(self, mounted: str) -> dict[str, Any]:
        """OpenAPI of the app, which is mounted at this path."""
        app = self._app
        made: dict[str, Any] = get_openapi(
            title=app.title,
            version=app.version,
            description=app.description,
            routes=app.routes,
            servers=[{"url": mounted}],
        )
        taken = [one.takes for one in self._all if one.takes is not None]
        given = [*(one.gives for one in self._all), Problem]
        bodies, strict = msgspec.json.schema_components(taken, ref_template=_REF)
        answers, open_ones = msgspec.json.schema_components(given, ref_template=_REF)
        for one in open_ones.values():
            # Answers may get more fields. A body with one that is not known is refused.
            if one.get("additionalProperties") is False:
                del one["additionalProperties"]
        made["components"] = {
            "schemas": {**open_ones, **strict},
            "securitySchemes": {"token": _TOKEN},
        }
        # Whoever runs the dashboard needs no token on their own machine.
        made["security"] = [{"token": []}, {}]
        body = iter(bodies)
        for one, answer in zip(self._all, answers, strict=False):
            operation = made["paths"][one.path][one.method.lower()]
            if one.takes is not None:
                operation["requestBody"] = {"required": True, "content": _content(next(body))}
            operation["responses"] = {
                "200": {"description": "Done.", "content": _content(answer)},
                **{
                    str(status): {
                        "description": _PROBLEMS[status],
                        "content": _content(answers[-1]),
                    }
                    for status in one.statuses()
                },
            }
        return made


def body_of(kind: type) -> Any:
    """Dependency that reads the body: `body: Annotated[Kind, body_of(Kind)]`."""

    async def read(request: Request) -> Any:
        given = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if given != JSON:
            raise NotJson(
                "The body is not declared as JSON.", f"Send the header Content-Type: {JSON}"
            )
        return decode(await request.body(), kind, "body")

    return Depends(read)


def _content(schema: dict[str, Any]) -> dict[str, Any]:
    return {JSON: {"schema": schema}}
