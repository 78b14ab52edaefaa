"""Films and videos, by what they are of, never by their path; reports; the style of the pages."""

from fastapi import APIRouter
from fastapi.responses import FileResponse, Response

from lefleet.dash.context import Context
from lefleet.dash.theme import STYLESHEET, stylesheet
from lefleet.queries.cycles import run_media
from lefleet.queries.episodes import video_file
from lefleet.queries.run import run_detail
from lefleet.reports.films import choose_films
from lefleet.reports.report import page

_MP4 = "video/mp4"
_REPORT_FILMS = 8
"""As lefleet report has by default."""


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

    @routes.get("/runs/{run}/report")
    def report(run: str) -> Response:
        """As a file to keep or send: it has a policy of its own, which fits no page of this one."""
        detail = run_detail(context.reader, run)
        text = page(context.reader, detail, choose_films(context.reader, detail, _REPORT_FILMS))
        name = f'attachment; filename="{detail.status.id}.html"'
        return Response(text, media_type="text/html", headers={"Content-Disposition": name})

    @routes.get(STYLESHEET)
    def style() -> Response:
        return Response(stylesheet(), media_type="text/css")

    return routes
