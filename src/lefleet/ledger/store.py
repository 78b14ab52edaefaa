"""Typed questions and answers about runs, stages, decisions and events."""

import time
from collections.abc import Sequence
from typing import Any

import msgspec
from sqlalchemy import Engine, case, func, insert, select, update

from lefleet.ledger import schema
from lefleet.ledger.approvals import ApprovalStore
from lefleet.ledger.config_change import ConfigChange, change_config
from lefleet.ledger.control import Controllers
from lefleet.ledger.episodes import EpisodeStore
from lefleet.ledger.feed import EventFeed
from lefleet.ledger.labels import LabelStore
from lefleet.ledger.lineage import (
    DatasetUseRow,
    checkpoints_of_dataset,
    dataset_lineage,
    dataset_uses,
    digests_beginning,
    insert_artifacts,
    lineage,
)
from lefleet.ledger.notifications import NotificationStore
from lefleet.ledger.rows import (
    AttemptRow,
    EventRow,
    RunHead,
    RunRow,
    attempt_row,
    insert_event,
    run_row,
)
from lefleet.ledger.sections import SectionStore
from lefleet.records import Decision, EpisodeRecord, Proposal, Record, Request

UNSEEN = "exited while no controller was running"


class Ledger:
    """One work folder's ledger. Safe to use from several processes at once, not from threads.

    `controllers` says which runs have a controller, and makes this process one.
    """

    def __init__(self, engine: Engine, reads: Engine, controllers: Controllers) -> None:
        self._engine = engine
        self._reads = reads
        self.controllers = controllers
        self.approvals = ApprovalStore(engine, self._reads)
        self.episodes = EpisodeStore(self._reads)
        self.feed = EventFeed(self._reads)
        self.labels = LabelStore(engine, self._reads)
        self.notifications = NotificationStore(engine, self._reads)
        self.sections = SectionStore(engine, self._reads)

    def close(self) -> None:
        self._engine.dispose()

    # Runs

    def create_run(
        self,
        run: str,
        config: dict[str, Any],
        origin: dict[str, Any] | None = None,
        constitution: dict[str, Any] | None = None,
        *,
        by: str = "",
    ) -> bool:
        """False when a run of this name is already there. `by` is who begins it."""
        with self._engine.begin() as connection:
            if connection.execute(select(schema.run.c.id).filter_by(id=run)).first():
                return False
            last = connection.execute(select(func.max(schema.run.c.number))).scalar() or 0
            now = time.time()
            connection.execute(
                insert(schema.run).values(
                    id=run,
                    number=last + 1,
                    state="running",
                    config=config,
                    origin=origin,
                    constitution=constitution,
                    created_at=now,
                    resumed_at=now,
                )
            )
            source = {"origin": f"{origin['run']}:{origin['cycle']}"} if origin else {}
            insert_event(connection, run, "run_created", source | _person(by))
            return True

    def runs(self) -> list[RunRow]:
        """All runs, oldest first."""
        with self._reads.connect() as connection:
            rows = connection.execute(select(schema.run).order_by(schema.run.c.number))
            return [run_row(row) for row in rows]

    def run_heads(self) -> list[RunHead]:
        """All runs, oldest first, without what is long."""
        columns = [schema.run.c[name] for name in RunHead._fields]
        with self._reads.connect() as connection:
            rows = connection.execute(select(*columns).order_by(schema.run.c.number))
            return [RunHead(*row) for row in rows]

    def run(self, run: str) -> RunRow | None:
        with self._reads.connect() as connection:
            row = connection.execute(select(schema.run).filter_by(id=run)).first()
            return run_row(row) if row else None

    def set_run_state(self, run: str, state: str, reason: str = "") -> None:
        """Change the state, with an event; nothing happens when it is that already."""
        with self._engine.begin() as connection:
            changed = connection.execute(
                update(schema.run)
                .where(schema.run.c.id == run, schema.run.c.state != state)
                .values(state=state, reason=reason)
            )
            if changed.rowcount:
                insert_event(connection, run, f"run_{state}", {"reason": reason})

    def request_stop(self, run: str, *, by: str = "") -> None:
        """Ask the run's controller to stop. A run that waits for a person needs one to do so."""
        table = schema.run
        state = case((table.c.state == "waiting", "running"), else_=table.c.state)
        with self._engine.begin() as connection:
            connection.execute(
                update(table).where(table.c.id == run).values(stop_requested=True, state=state)
            )
            insert_event(connection, run, "stop_requested", _person(by))

    def resume_run(self, run: str, change: ConfigChange | None = None, *, by: str = "") -> None:
        """Set the run to running again; attempts before this do not count any more.

        A `change` of its config is made with events that name what changed.
        """
        with self._engine.begin() as connection:
            if change is not None:
                change_config(connection, run, change, _person(by))
            connection.execute(
                update(schema.run)
                .where(schema.run.c.id == run)
                .values(
                    state="running",
                    reason="",
                    stop_requested=False,
                    resumed_at=time.time(),
                    resumed_after=select(
                        func.coalesce(func.max(schema.attempt.c.id), 0)
                    ).scalar_subquery(),
                )
            )
            insert_event(connection, run, "run_resumed", _person(by))

    def set_constitution(self, run: str, constitution: dict[str, Any], digest: str) -> None:
        """From now on these rules hold."""
        with self._engine.begin() as connection:
            connection.execute(
                update(schema.run).where(schema.run.c.id == run).values(constitution=constitution)
            )
            insert_event(connection, run, "constitution_changed", {"digest": digest})

    # Stages

    def attempts(self, run: str) -> list[AttemptRow]:
        """All attempts at all stages, oldest first."""
        with self._reads.connect() as connection:
            query = select(schema.attempt).filter_by(run=run).order_by(schema.attempt.c.id)
            return [attempt_row(row) for row in connection.execute(query)]

    def start_attempt(self, run: str, cycle: int, stage: str, request: Request) -> AttemptRow:
        """Begin the next attempt at a stage; close one that is still open as gone."""
        table = schema.attempt
        with self._engine.begin() as connection:
            mine = (table.c.run == run, table.c.cycle == cycle, table.c.stage == stage)
            abandoned = connection.execute(
                update(table)
                .where(*mine, table.c.state == "running")
                .values(state="gone", error=UNSEEN)
            )
            if abandoned.rowcount:
                data = {"cycle": cycle, "stage": stage, "error": UNSEEN}
                insert_event(connection, run, "stage_gone", data)
            last = connection.execute(select(func.max(table.c.attempt)).where(*mine)).scalar() or 0
            values = {
                "run": run,
                "cycle": cycle,
                "stage": stage,
                "attempt": last + 1,
                "state": "running",
                "request": msgspec.to_builtins(request),
                "started_at": time.time(),
            }
            result = connection.execute(insert(table).values(values).returning(table))
            row = result.one()
            data = {"cycle": cycle, "stage": stage, "attempt": last + 1}
            insert_event(connection, run, "stage_started", data)
            return attempt_row(row)

    def record_wait(self, attempt: AttemptRow, waited_s: float) -> None:
        """How long a running attempt has waited for room on a cluster."""
        with self._engine.begin() as connection:
            table = schema.attempt
            connection.execute(
                update(table)
                .where(table.c.id == attempt.id, table.c.state == "running")
                .values(waited_s=max(0.0, waited_s))
            )

    def end_attempt(
        self,
        attempt: AttemptRow,
        state: str,
        error: str,
        *,
        recorded: int = 0,
        ended_at: float | None = None,
    ) -> None:
        """The attempt ended without a record: now, or when `ended_at` says."""
        with self._engine.begin() as connection:
            connection.execute(
                update(schema.attempt)
                .where(schema.attempt.c.id == attempt.id)
                .values(
                    state=state,
                    error=error,
                    recorded=recorded,
                    ended_at=_end(attempt, ended_at),
                )
            )
            data = {"cycle": attempt.cycle, "stage": attempt.stage, "error": error}
            insert_event(connection, attempt.run, f"stage_{state}", data)

    def commit_stage(
        self,
        attempt: AttemptRow,
        record: Record,
        episodes: Sequence[EpisodeRecord] = (),
        *,
        ended_at: float | None = None,
    ) -> None:
        """Commit a stage's record with its artifacts and episodes: all of it or nothing."""
        with self._engine.begin() as connection:
            connection.execute(
                update(schema.attempt)
                .where(schema.attempt.c.id == attempt.id)
                .values(
                    state="committed",
                    record=msgspec.to_builtins(record),
                    ended_at=_end(attempt, ended_at),
                )
            )
            where = {"run": attempt.run, "cycle": attempt.cycle, "stage": attempt.stage}
            insert_artifacts(connection, where, record, episodes)
            data = {"cycle": attempt.cycle, "stage": attempt.stage, "attempt": attempt.attempt}
            insert_event(connection, attempt.run, "stage_committed", data)

    # Proposals and decisions

    def proposals(self, run: str) -> list[Proposal]:
        """All proposals, by cycle."""
        with self._reads.connect() as connection:
            query = select(schema.proposal.c.body).filter_by(run=run)
            rows = connection.execute(query.order_by(schema.proposal.c.cycle))
            return [msgspec.convert(row.body, Proposal) for row in rows]

    def record_proposal(self, run: str, proposal: Proposal) -> None:
        body = msgspec.to_builtins(proposal)
        with self._engine.begin() as connection:
            connection.execute(
                insert(schema.proposal).values(
                    run=run, cycle=proposal.cycle, body=body, at=time.time()
                )
            )
            insert_event(connection, run, "proposal", body)

    def decisions(self, run: str) -> list[Decision]:
        """All decisions, by cycle."""
        with self._reads.connect() as connection:
            query = select(schema.decision.c.body).filter_by(run=run)
            rows = connection.execute(query.order_by(schema.decision.c.cycle))
            return [msgspec.convert(row.body, Decision) for row in rows]

    def record_decision(self, run: str, decision: Decision) -> None:
        with self._engine.begin() as connection:
            connection.execute(
                insert(schema.decision).values(
                    run=run,
                    cycle=decision.cycle,
                    decision=decision.decision,
                    body=msgspec.to_builtins(decision),
                    at=time.time(),
                )
            )
            data = {"cycle": decision.cycle, "decision": decision.decision, "why": decision.why}
            insert_event(connection, run, "decision", data)

    # Events

    def add_event(self, run: str, kind: str, data: dict[str, Any]) -> None:
        with self._engine.begin() as connection:
            insert_event(connection, run, kind, data)

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[EventRow]:
        """Events of a run with an id above `after`, in order."""
        table = schema.event
        query = select(table).where(table.c.run == run, table.c.id > after)
        with self._reads.connect() as connection:
            rows = connection.execute(query.order_by(table.c.id).limit(limit))
            return [EventRow(row.id, row.at, row.kind, row.data) for row in rows]

    # Lineage

    def checkpoints_of_dataset(self, digest: str) -> list[str]:
        """Digests of the checkpoints that were trained on a dataset."""
        with self._reads.connect() as connection:
            return checkpoints_of_dataset(connection, digest)

    def lineage(self, checkpoint_digest: str, run: str = "") -> dict[str, Any]:
        """From a checkpoint to its datasets, their episodes, and the episodes that judged it; as
        `run` made it, where several did."""
        with self._reads.connect() as connection:
            return lineage(connection, checkpoint_digest, run)

    def dataset_lineage(self, digest: str) -> list[dict[str, Any]]:
        """A dataset and all that it was merged from; none where it is unknown."""
        with self._reads.connect() as connection:
            return dataset_lineage(connection, digest)

    def dataset_uses(self) -> list[DatasetUseRow]:
        """Every dataset that a stage of any run made or chose, oldest first."""
        with self._reads.connect() as connection:
            return dataset_uses(connection)

    def digests_beginning(self, beginning: str) -> tuple[list[str], list[str]]:
        """Digests of checkpoints and of datasets that begin like this."""
        with self._reads.connect() as connection:
            return digests_beginning(connection, beginning)


def _person(by: str) -> dict[str, str]:
    """Who did it, in an event; nothing where nobody said."""
    return {"by": by} if by else {}


def _end(attempt: AttemptRow, ended_at: float | None) -> float:
    """Not before the start: a clock may have been set back meanwhile."""
    return max(attempt.started_at, time.time() if ended_at is None else ended_at)
