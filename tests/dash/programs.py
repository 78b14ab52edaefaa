"""A program that asks the API, behind the real guard, and a work folder with real runs in it."""

import shutil
from contextlib import closing
from pathlib import Path

from fastapi import FastAPI
from starlette.testclient import TestClient

from lefleet.dash import media, tokens
from lefleet.dash.api import PREFIX, create_api
from lefleet.dash.api.errors import answer_errors
from lefleet.dash.context import Context
from lefleet.knowledge import update
from lefleet.ledger import open_ledger
from lefleet.records import ApprovalPlan, Budgets
from lefleet_client.transport import TransportError
from tests.dash.asking import HOST, guard
from tests.gates import RUN, gate_of_run
from tests.loop.states import config
from tests.waiting import Waiting

WAITING = "r"
"""Name of the run that asks a person."""
ADDRESS = f"http://{HOST}"
V1 = f"{PREFIX}/v1"


def no_network():
    raise TransportError("There is no network here.")


def work_folder(folder: Path, comparison: Path, demos: Path) -> Context:
    """A run with a real gate, one that waits for a person, and a recorded dataset."""
    workdir, recorded = folder / "runs", folder / "datasets"
    shutil.copytree(demos / "dataset", recorded / "demos")
    gate_of_run(workdir, comparison)
    asking = config(approvals=ApprovalPlan(promote="human"), budgets=Budgets(cycles=2))
    waiting = Waiting(workdir, asking)
    with closing(waiting.ledger):
        waiting.control()
    with closing(open_ledger(workdir)) as ledger:
        ledger.set_run_state(RUN, "failed", "the disk was full")
        update(ledger, workdir)
    return Context(workdir, no_network, datasets=(recorded,))


def served(context: Context):
    """API and films behind the guard, where everybody needs a token."""
    app = FastAPI(openapi_url=None)
    app.mount(PREFIX, create_api(context))
    app.include_router(media.router(context))
    answer_errors(app)
    return guard(context.workdir, app)


class Program(TestClient):
    """Somebody with a token; without `name`, nobody."""

    def __init__(self, context: Context, name: str = "", *may: str) -> None:
        headers = {"origin": ADDRESS}
        if name:
            headers["authorization"] = f"Bearer {tokens.add(context.workdir, name, may)}"
        super().__init__(
            served(context), base_url=ADDRESS, headers=headers, raise_server_exceptions=False
        )

    def asks(self, path: str, status: int = 200, **query):
        """The answer to a GET, which has this status."""
        return _checked(self.get(f"{V1}{path}", params=query or None), status)

    def says(self, path: str, body=None, status: int = 200):
        """The answer to a POST."""
        return _checked(self.post(f"{V1}{path}", json=body), status)

    def puts(self, path: str, body, status: int = 200):
        return _checked(self.put(f"{V1}{path}", json=body), status)


def _checked(answer, status: int):
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/json"
    found = answer.json()
    if status != 200:
        assert set(found) == {"problem", "remedy"}
        assert found["problem"]
        assert found["remedy"] or status not in (404, 409)
    return found
