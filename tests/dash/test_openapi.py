"""The description is true: Schemathesis asks everything that it lists, rightly and wrongly."""

from contextlib import closing
from pathlib import Path

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from jsonschema import Draft202012Validator
from schemathesis.checks import CHECKS
from schemathesis.config import SchemathesisConfig

from lefleet.dash import tokens
from lefleet.dash.api import create_api
from lefleet.dash.context import Context
from lefleet.ledger import open_ledger
from lefleet.queries.datasets import dataset_id
from tests.dash.asking import guard
from tests.dash.programs import WAITING, no_network, served, work_folder
from tests.gates import CYCLE, RUN
from tests.ledger.ledgers import has_controller

EXAMPLES = 30
"""Of each endpoint and way to generate them."""
MAY = ("approve", "label", "edit")
"""Not run and film: these start trainings and simulations, which take minutes. Who asks is refused
there, which is checked like every other answer; what they do is in test_api_changes.py. Only for
plans, which start nothing, there is a token with the right run."""
# What these accept depends on more than a schema can say: a no needs a reason, only what was said
# can be taken back, a page keeps its front matter, a run a config that exists.
SKIPPED = {name: ["positive_data_acceptance"] for name in ("answer_approval", "label", "save_page")}
# There may also be a run of the name `plan`, which can be read.
SKIPPED["plan_run"] = ["allow_header_conformance", "positive_data_acceptance"]
KNOWN = {
    "path.run": [RUN, WAITING],
    "path.cycle": [CYCLE, 0],
    "path.stage": ["gate", "train"],
    "path.number": [1],
    "path.dataset": ["DATASET"],
    "path.index": [0, 14],
    "path.folder": ["tasks"],
    "path.name": ["push.md"],
    "query.words": ["push"],
    "body.template": ["demo"],
    "body.name": ["mine"],
}
"""Names that exist here; most examples use them."""
DESCRIPTION = create_api(Context(Path("nowhere"), no_network)).openapi()


class Served:
    """The app and the tokens that the fixture below makes; the id of a dataset is known only then,
    too."""

    app, token, planner, dataset = None, b"", b"", ""

    async def __call__(self, scope, receive, send) -> None:
        if scope["type"] == "http":
            scope["path"] = scope["path"].replace("DATASET", self.dataset)
            token = self.planner if scope["path"].endswith("/runs/plan") else self.token
            scope["headers"] = [*scope["headers"], (b"authorization", b"Bearer " + token)]
        await self.app(scope, receive, send)


SERVED = Served()
schema = schemathesis.openapi.from_dict(
    DESCRIPTION,
    config=SchemathesisConfig.from_dict(
        {
            "dictionaries": {name: {"values": values} for name, values in KNOWN.items()},
            "parameters": {name: {"dictionary": name, "probability": 0.7} for name in KNOWN},
            "generation": {"with-security-parameters": False},
        }
    ),
)
schema.app = SERVED


@pytest.fixture(scope="module", autouse=True)
def context(tmp_path_factory, comparison, demos):
    """A copy that is thrown away. The run that asks is stopped: an answer is recorded, and no
    controller begins to train."""
    made = work_folder(tmp_path_factory.mktemp("openapi"), comparison, demos)
    with closing(open_ledger(made.workdir)) as ledger:
        ledger.set_run_state(WAITING, "stopped", "somebody stopped it")
    SERVED.app = guard(made.workdir, served(made).app, named=("testserver",))
    SERVED.token = tokens.add(made.workdir, "fuzz", MAY).encode()
    SERVED.planner = tokens.add(made.workdir, "planner", ("run",)).encode()
    SERVED.dataset = dataset_id(made.datasets[0] / "demos")
    return made


@schema.parametrize()
@settings(
    max_examples=EXAMPLES, deadline=None, derandomize=True, suppress_health_check=[*HealthCheck]
)
def test_every_endpoint_answers_as_described(case):
    name = case.operation.definition.raw["operationId"]
    case.call_and_validate(excluded_checks=CHECKS.get_by_names(SKIPPED.get(name, [])))


def test_nothing_was_started(context):
    with closing(open_ledger(context.workdir)) as ledger:
        assert {one.id: one.state for one in ledger.runs()} == {RUN: "failed", WAITING: "stopped"}
    assert not any(has_controller(context.workdir / run) for run in (RUN, WAITING))


def test_every_part_of_the_description_is_valid_and_used():
    schemas = DESCRIPTION["components"]["schemas"]
    for one in schemas.values():
        Draft202012Validator.check_schema(one)
    text = str(DESCRIPTION)
    assert {name for name in schemas if f"'#/components/schemas/{name}'" not in text} == set()
