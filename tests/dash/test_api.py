"""The JSON API as a program sees it: typed answers, pages of lists, and what is not there."""

import logging
from contextlib import closing

import httpx
import msgspec
import pytest
from fastapi import FastAPI
from starlette.testclient import TestClient

from lefleet.actions.runs import Template
from lefleet.dash.api.errors import Problem, answer_errors, status_of
from lefleet.dash.api.reading import Health
from lefleet.errors import BadInput, Conflict, Denied, LeFleetError, StageFailed, Unknown
from lefleet.knowledge.search import PageEntry, SearchHit
from lefleet.ledger import ApprovalRow, open_ledger
from lefleet.queries.cycles import CycleDetail, StageLog
from lefleet.queries.datasets import DatasetCard
from lefleet.queries.episodes import EpisodeCard, EpisodeDetail
from lefleet.queries.events import EventPage
from lefleet.queries.fleet import FleetStatus
from lefleet.queries.knowledge import KnowledgePage
from lefleet.queries.paging import MOST, Page
from lefleet.queries.pairs import GatePair
from lefleet.queries.run import RunDetail
from lefleet.queries.runs import RunList
from tests.dash.programs import V1, WAITING, Program, work_folder
from tests.dash.serving import dashboard
from tests.gates import CYCLE, RUN


@pytest.fixture(scope="module")
def context(tmp_path_factory, comparison, demos):
    return work_folder(tmp_path_factory.mktemp("api"), comparison, demos)


@pytest.fixture(scope="module")
def anna(context):
    """May only look."""
    return Program(context, "anna")


@pytest.fixture(scope="module")
def dataset(anna):
    """Id of the recorded dataset."""
    return next(one["id"] for one in anna.asks("/datasets")["items"] if one["name"] == "demos")


READ = {
    "/health": Health,
    "/runs": RunList,
    f"/runs/{RUN}": RunDetail,
    f"/runs/{WAITING}": RunDetail,
    f"/runs/{WAITING}/events": EventPage,
    f"/runs/{WAITING}/cycles/0": CycleDetail,
    f"/runs/{RUN}/cycles/{CYCLE}": CycleDetail,
    f"/runs/{RUN}/cycles/{CYCLE}/pairs": Page[GatePair],
    f"/runs/{RUN}/cycles/{CYCLE}/stages/gate/log": StageLog,
    "/templates": Page[Template],
    "/approvals": Page[ApprovalRow],
    "/approvals/answered": Page[ApprovalRow],
    "/approvals/1": ApprovalRow,
    "/datasets": Page[DatasetCard],
    "/datasets/DATASET": DatasetCard,
    "/datasets/DATASET/episodes": Page[EpisodeCard],
    "/datasets/DATASET/episodes/0": EpisodeDetail,
    "/knowledge": Page[PageEntry],
    "/knowledge/search?words=push": Page[SearchHit],
    "/knowledge/pages/tasks/push.md": KnowledgePage,
    "/fleet": FleetStatus,
}


@pytest.mark.parametrize("path", READ)
def test_everything_can_be_read_in_its_type(anna, dataset, path):
    answer = anna.get(f"{V1}{path.replace('DATASET', dataset)}")
    assert answer.status_code == 200
    assert answer.headers["cache-control"] == "no-store"
    msgspec.json.decode(answer.content, type=READ[path])


def test_it_says_who_asks_and_what_they_may_do(context):
    bert = Program(context, "bert", "label", "approve")
    assert bert.asks("/health") == {
        "who": "bert (token)",
        "may": ["approve", "label"],
        "version": "0.1.0",
    }


def test_the_answers_are_what_the_runs_did(anna, dataset):
    runs = anna.asks("/runs")
    assert {one["id"]: one["state"] for one in runs["items"]} == {
        WAITING: "waiting",
        RUN: "failed",
    }
    assert anna.asks("/runs", state="waiting")["total"] == 1
    assert anna.asks("/runs", state="stopped")["items"] == []
    cycle = anna.asks(f"/runs/{RUN}/cycles/{CYCLE}")
    assert "is better than the baseline" in cycle["verdict"]
    pairs = anna.asks(f"/runs/{RUN}/cycles/{CYCLE}/pairs", limit=MOST)["items"]
    differing = anna.asks(f"/runs/{RUN}/cycles/{CYCLE}/pairs", differing="true", limit=MOST)
    assert differing["items"] == [one for one in pairs if one["outcome"] in ("won", "lost")]
    assert anna.asks("/approvals")["items"][0]["run"] == WAITING
    assert anna.asks(f"/datasets/{dataset}/episodes/3")["next"] == 4
    assert anna.asks("/knowledge/search", words="push")["items"][0]["page"] == "tasks/push.md"
    assert "There is no network here" in anna.asks("/fleet")["problem"]


# Pages of lists


def test_pages_of_a_list_are_parts_of_it(anna, dataset):
    path = f"/datasets/{dataset}/episodes"
    every = anna.asks(path, limit=MOST)
    parts = [anna.asks(path, offset=at, limit=4) for at in range(0, every["total"], 4)]
    assert [one for part in parts for one in part["items"]] == every["items"]
    assert {part["total"] for part in parts} == {every["total"]} == {15}
    assert anna.asks(path, offset=2**63 - 1) == {"items": [], "total": 15, "offset": 2**63 - 1}


def test_events_come_page_by_page_and_none_twice(anna, context):
    with closing(open_ledger(context.workdir)) as ledger:
        expected = [one.id for one in ledger.events(WAITING)][::-1]
    found, before = [], None
    while True:
        query = {} if before is None else {"before": before}
        page = anna.asks(f"/runs/{WAITING}/events", limit=3, **query)
        found += [one["id"] for one in page["items"]]
        if (before := page["next_before"]) is None:
            break
    assert found == expected
    decisions = anna.asks(f"/runs/{WAITING}/events", group="decisions")["items"]
    assert {one["kind"] for one in decisions} == {"proposal", "decision"}


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        f"limit={MOST + 1}",
        "limit=many",
        "limit=",
        "limit=1e9",
        "offset=-1",
        f"offset={2**63}",
        "offset=9" + 5000 * "9",
        "state=sleeping",
        "state=",
    ],
)
def test_a_page_that_cannot_be_is_refused(anna, query):
    answer = anna.get(f"{V1}/runs?{query}")
    assert answer.status_code == 400
    problem = msgspec.json.decode(answer.content, type=Problem).problem
    assert problem.startswith(query.partition("=")[0])


@pytest.mark.parametrize(
    "path",
    [
        f"/runs/{RUN}/events?before=0",
        f"/runs/{RUN}/events?group=secret",
        f"/runs/{RUN}/cycles/{CYCLE}/stages/gate/log?lines=1001",
        f"/runs/{RUN}/cycles/-1",
        f"/runs/{RUN}/cycles/one",
        f"/runs/{RUN}/cycles/{2**63}",
        "/approvals/x",
        "/knowledge/search",
        "/knowledge/search?words=" + 201 * "x",
    ],
)
def test_what_is_not_valid_is_refused(anna, path):
    anna.asks(path, 400)


# What is not there


UNKNOWN = [
    "/",
    "/nothing",
    "/runs/",
    "/runs/nobody",
    "/runs/nobody/events",
    f"/runs/{RUN}/cycles/7",
    f"/runs/{RUN}/cycles/7/pairs",
    "/runs/nobody/cycles/0/pairs",
    f"/runs/{RUN}/cycles/7/stages/gate/log",
    f"/runs/{RUN}/cycles/{CYCLE}/stages/films/log",
    "/approvals/99",
    f"/approvals/{2**63 - 1}",
    "/datasets/nobody",
    "/datasets/nobody/episodes",
    "/datasets/DATASET/episodes/15",
    "/knowledge/pages/tasks/nobody.md",
    "/knowledge/pages/tasks/push",
    "/knowledge/pages/elsewhere/push.md",
]


@pytest.mark.parametrize("path", UNKNOWN)
def test_what_is_not_there_is_not_found(anna, dataset, path):
    anna.asks(path.replace("DATASET", dataset), 404)


HOSTILE = [
    "..",
    "%2e%2e",
    "..%2f..%2fetc%2fpasswd",
    "%2fetc%2fpasswd",
    "..%5c..%5cwindows",
    "%00",
    "r%00.md",
    "%ff%fe",
    "%u0000",
    "<script>alert(1)</script>",
    "'; DROP TABLE run; --",
    "😀",
    "%0d%0aSet-Cookie:%20x=1",
    "x" * 3000,
    "~",
]


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize(
    "place",
    [
        "/runs/{}",
        "/runs/{}/events",
        f"/runs/{RUN}/cycles/{CYCLE}/stages/{{}}/log",
        "/datasets/{}",
        "/knowledge/pages/{}/push.md",
        "/knowledge/pages/tasks/{}",
    ],
)
def test_hostile_parts_of_an_address_name_nothing(anna, place, part):
    answer = anna.get(f"{V1}{place.format(part)}")
    assert answer.status_code in (400, 404)
    assert answer.headers["content-type"] == "application/json"
    assert "root:" not in answer.text
    assert "set-cookie" not in answer.headers


@pytest.mark.parametrize("part", HOSTILE)
@pytest.mark.parametrize(
    "place",
    [
        "/media/runs/{}/cycles/1/gate/x.mp4",
        f"/media/runs/{RUN}/cycles/{CYCLE}/{{}}/x.mp4",
        f"/media/runs/{RUN}/cycles/{CYCLE}/gate/{{}}.mp4",
        "/media/episodes/{}/0/observation.images.top",
        "/media/episodes/DATASET/0/{}",
    ],
)
def test_a_film_that_is_not_there_is_not_found(anna, dataset, place, part):
    answer = anna.get(place.replace("DATASET", dataset).format(part))
    assert answer.status_code == 404
    assert msgspec.json.decode(answer.content, type=Problem).problem


def test_only_what_is_possible_at_an_address_is_done(anna):
    answer = anna.delete(f"{V1}/runs")
    assert (answer.status_code, answer.headers["allow"]) == (405, "GET, POST")
    assert msgspec.json.decode(answer.content, type=Problem).problem
    assert anna.get(f"{V1}/approvals/1/answer").headers["allow"] == "POST"


# Errors


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (BadInput("x"), 400),
        (Unknown("x"), 404),
        (Denied("caps.steps", "x"), 403),
        (Conflict("x"), 409),
        (StageFailed("x"), 500),
        (LeFleetError("x"), 500),
    ],
)
def test_every_error_has_its_status(error, status):
    assert status_of(error) == status


def test_a_mistake_of_ours_tells_nothing_of_the_inside(caplog):
    app = FastAPI()

    @app.get("/")
    def broken():
        raise RuntimeError("secret")

    answer_errors(app)
    with caplog.at_level(logging.CRITICAL), TestClient(app, raise_server_exceptions=False) as asks:
        answer = asks.get("/")
    assert answer.status_code == 500
    assert "secret" not in answer.text
    assert msgspec.json.decode(answer.content, type=Problem).remedy == "Its log says why."


def test_in_a_real_dashboard_programs_get_json_and_people_pages(context, tmp_path):
    where = ("--port", "0", "--datasets", str(context.datasets[0]))
    with dashboard(context.workdir, *where, folder=tmp_path) as (_, url), httpx.Client() as asks:
        health = asks.get(f"{url}{V1}/health")
        assert (health.status_code, health.json()["version"]) == (200, "0.1.0")
        assert asks.get(f"{url}/api/openapi.json").json()["servers"] == [{"url": "/api"}]
        for path in ("/api/", "/api/v2/runs", f"{V1}/nothing", "/media/nothing"):
            answer = asks.get(f"{url}{path}")
            assert answer.status_code == 404
            if path != "/media/nothing":
                msgspec.json.decode(answer.content, type=Problem)
        assert asks.get(f"{url}/").headers["content-type"].startswith("text/html")
