"""The JSON API: the stable surface for programs."""

from fastapi import APIRouter, Request

from lefleet.dash.context import Context


def router(context: Context) -> APIRouter:
    """All endpoints, below /api/v1."""
    routes = APIRouter(prefix="/api/v1")

    @routes.get("/health")
    def health(request: Request) -> dict[str, str]:
        return {"who": context.person(request).name}

    return routes
