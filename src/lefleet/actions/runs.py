"""Start, stop and resume runs, as `lefleet run`, `stop` and `resume` do.

A page starts runs only from configs that are on this machine already, with the few fields changed
that `StartRequest` has: a config can name programs, and whoever writes one needs a shell here.
"""

from contextlib import closing
from pathlib import Path
from typing import Annotated, Any, Literal

import yaml
from msgspec import Meta

from lefleet.devices import AUTO
from lefleet.errors import BadInput
from lefleet.ledger import open_ledger, read_ledger
from lefleet.loop import runs as loop_runs
from lefleet.loop.config import DEMO_CONFIG, check_workdir, config_of
from lefleet.loop.existing_data import require_data
from lefleet.loop.plan import plan_lines
from lefleet.loop.preflight import ready_config, with_ready_device
from lefleet.loop.rules import begin_rules
from lefleet.loop.training import require_trainable
from lefleet.records import RunConfig
from lefleet.records.border import Strict, validated
from lefleet.records.config_file import converted, read_fields

_DEMO = "demo"
_OF_RUN, _OF_FILE = "run:", "file:"


class StartRequest(Strict, frozen=True, kw_only=True):
    """A run to start: a known config under a name of its own."""

    template: str
    """Id of a config as `templates` lists it."""
    name: str
    """Of the new run."""
    cycles: Annotated[int, Meta(ge=1)] | None = None
    """None: as in the config, like all below."""
    wall_hours: Annotated[float, Meta(ge=0.0)] | None = None
    seed: Annotated[int, Meta(ge=0)] | None = None
    promote: Literal["auto", "human"] | None = None
    """Whether a person is asked before each promotion."""


class Template(Strict, frozen=True, kw_only=True):
    """A config that a run can be started from."""

    id: str
    name: str
    """For people."""
    config: str
    """YAML."""


class Started(Strict, frozen=True, kw_only=True):
    """What came of a start, a stop or a resume."""

    run: str
    happened: str
    """created, attached, resumed, waiting or finished; stopping; or the state of a run that has
    ended."""


def templates(workdir: Path, folder: Path | None = None) -> tuple[Template, ...]:
    """The demo, the configs in `folder` that are of runs, and those of this work folder's runs."""
    found = [Template(id=_DEMO, name="The demo", config=DEMO_CONFIG.read_text())]
    for path in sorted(folder.glob("*.yaml")) if folder and folder.is_dir() else ():
        try:
            # What a run needs on this machine is looked at when it is planned or started.
            converted(read_fields(path, "config", ""), RunConfig, str(path))
        except BadInput:
            continue  # For instance a server's.
        found.append(Template(id=f"{_OF_FILE}{path.name}", name=str(path), config=path.read_text()))
    with closing(read_ledger(workdir)) as ledger:
        for row in reversed(ledger.runs()):
            text = yaml.safe_dump(row.corrected_config, sort_keys=False, allow_unicode=True)
            found.append(Template(id=f"{_OF_RUN}{row.id}", name=f"Like {row.id}", config=text))
    return tuple(found)


def plan(workdir: Path, folder: Path | None, request: StartRequest) -> list[str]:
    """What the run would do, line by line; nothing is started."""
    config = _config(workdir, folder, request)
    if config.device == AUTO:
        config = with_ready_device(workdir, config)
    require_trainable(config)
    require_data(config)
    begin_rules(workdir, config, None)
    return list(plan_lines(config, workdir / config.name, None))


def start(workdir: Path, folder: Path | None, request: StartRequest, who: str) -> Started:
    """Start the run, or find the same one where it was started before."""
    check_workdir(workdir)
    config = _config(workdir, folder, request)
    # Before a ledger is made: what is refused or denied leaves nothing behind.
    config = ready_config(workdir, config).require_ok()
    with closing(open_ledger(workdir, config.ledger)) as ledger:
        happened = loop_runs.begin(ledger, workdir, config, by=who)
    return Started(run=config.name, happened=happened)


def stop(workdir: Path, run: str, who: str) -> Started:
    """Ask a run to stop, without waiting for its stage to end; one that has ended stays so."""
    with closing(open_ledger(workdir, create=False, migrate=False)) as ledger:
        row = loop_runs.find(ledger, run)
        if row.state not in ("running", "waiting"):
            return Started(run=run, happened=row.state)
        if not row.stop_requested:
            ledger.request_stop(run, by=who)
    # One that has a controller already exits at once.
    loop_runs.start_controller(workdir, run)
    return Started(run=run, happened="stopping")


def resume(workdir: Path, run: str, who: str) -> Started:
    """See that an unfinished run continues."""
    with closing(open_ledger(workdir, create=False)) as ledger:
        row = loop_runs.find(ledger, run)
        happened = loop_runs.resume(ledger, workdir, row, by=who)
    return Started(run=run, happened=happened)


def _config(workdir: Path, folder: Path | None, request: StartRequest) -> RunConfig:
    request = validated(request)
    fields = _fields(workdir, folder, request.template)
    fields["name"] = request.name
    if request.seed is not None:
        fields["seed"] = request.seed
    changes: dict[str, dict[str, Any]] = {
        "budgets": {"cycles": request.cycles, "wall_hours": request.wall_hours},
        "approvals": {"promote": request.promote},
    }
    for part, values in changes.items():
        given = {name: value for name, value in values.items() if value is not None}
        if given:
            fields[part] = (fields.get(part) or {}) | given
    return config_of(fields, request.template)


def _fields(workdir: Path, folder: Path | None, template: str) -> dict[str, Any]:
    if template == _DEMO:
        return read_fields(DEMO_CONFIG, "template", "")
    files = {f"{_OF_FILE}{path.name}": path for path in folder.glob("*.yaml")} if folder else {}
    if template in files:
        return read_fields(files[template], "template", "")
    if template.startswith(_OF_RUN):
        with closing(read_ledger(workdir)) as ledger:
            row = ledger.run(template.removeprefix(_OF_RUN))
        if row is not None:
            return row.corrected_config
    raise BadInput(
        f"template: there is no config {template}.", "Take one of those that are listed."
    )
