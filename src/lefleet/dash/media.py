"""Films and videos, by what they are of, never by their path; and the style of the pages."""

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response

from lefleet.dash.context import Context
from lefleet.dash.theme import STYLESHEET, stylesheet
from lefleet.queries.cycles import run_media
from lefleet.queries.episodes import video_file

_MP4 = "video/mp4"


def router(context: Context) -> APIRouter:
    """Films are below /media; browsers ask for parts of one, and get them."""
    routes = APIRouter(include_in_schema=False)

    @routes.get("/media/runs/{run}/cycles/{cycle}/{stage}/{name}")
    def film(run: str, cycle: int, stage: str, name: str) -> FileResponse:
        return FileResponse(run_media(context.reader, run, cycle, stage, name), media_type=_MP4)

    @routes.get("/media/episodes/{dataset}/{index}/{camera}")
    def video(dataset: str, index: int, camera: str) -> FileResponse:
        found = video_file(
            context.ledger(), context.workdir, context.datasets, dataset, index, camera=camera
        )
        return FileResponse(found[0], media_type=_MP4)

    @routes.get(STYLESHEET)
    def style() -> Response:
        return Response(stylesheet(), media_type="text/css")

    return routes
