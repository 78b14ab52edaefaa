"""The JSON API: the stable surface for programs, below /api/v1, described in /api/openapi.json.

    errors     what went wrong, as status and `{"problem", "remedy"}`; for films too
    routes     endpoints with typed bodies and answers, and the description that is made of them
    reading    runs, cycles, approvals, datasets, knowledge and the fleet, as `queries` tells them
    writing    what a person may change, by the same `actions` as pages and commands

An app of its own, so that what is unknown here is answered as JSON and never by a page.
"""

from importlib.metadata import version
from typing import Any

from fastapi import FastAPI

from lefleet.dash.api.errors import answer_errors
from lefleet.dash.api.reading import add_reading
from lefleet.dash.api.routes import TypedRoutes
from lefleet.dash.api.writing import add_writing
from lefleet.dash.context import Context

PREFIX = "/api"
"""Where it is to be mounted."""
_ABOUT = """\
What the pages of `lefleet dash` show, and what they can do, for programs.

Who asks is the user who runs the dashboard, from their own machine; everybody else sends a token
(`lefleet dash token add NAME --may approve,label`), which says what they may do. A request that
changes something carries a token, or an `Origin` that is the dashboard's own.

Every error is `{"problem": ..., "remedy": ...}`. Times are seconds since 1970. Lists come in pages:
`offset` and `limit`, with the `total` in the answer; events by `before`. Repeating a request that
changes something changes nothing more. Fields may be added to answers: ignore those that you do not
know.
"""


def create_api(context: Context) -> FastAPI:
    """The app, to be mounted at `PREFIX`."""
    api = FastAPI(
        title="LeFleet",
        version=version("lefleet"),
        description=_ABOUT,
        openapi_url="/openapi.json",
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,
    )
    routes = TypedRoutes(api, "/v1")
    add_reading(routes, context)
    add_writing(routes, context)
    answer_errors(api)

    def description() -> dict[str, Any]:
        return routes.description(PREFIX)

    api.openapi = description  # type: ignore[method-assign]
    return api
