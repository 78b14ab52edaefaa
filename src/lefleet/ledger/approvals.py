"""Questions to people and their answers: asked once, answered once."""

import time
from typing import Any

import msgspec
from sqlalchemy import Engine, Row, func, insert, select, update

from lefleet.ledger import schema
from lefleet.ledger.rows import insert_event
from lefleet.records import ApprovalAnswer, ApprovalKind
from lefleet.records.border import Strict


class ApprovalRow(Strict, frozen=True, kw_only=True):
    """A question to a person."""

    id: int
    run: str
    cycle: int
    kind: ApprovalKind
    subject: str
    """What makes it one question: a candidate's digest, a constitution's, …"""
    text: str
    """For a person: what is asked, in one line."""
    evidence: dict[str, Any]
    asked_at: float
    expires_at: float | None
    """None: it waits until somebody answers."""
    on_timeout: str
    """approve or reject."""
    answer: ApprovalAnswer | None

    @property
    def is_open(self) -> bool:
        return self.answer is None


class ApprovalStore:
    """The approvals of all runs of a ledger."""

    def __init__(self, engine: Engine, reads: Engine) -> None:
        self._engine = engine
        self._reads = reads

    def all(self, run: str) -> list[ApprovalRow]:
        """Of one run, oldest first."""
        with self._reads.connect() as connection:
            query = select(schema.approval).filter_by(run=run).order_by(schema.approval.c.id)
            return [_approval(row) for row in connection.execute(query)]

    def open(self) -> list[ApprovalRow]:
        """Of all runs, oldest first: what people have not answered."""
        table = schema.approval
        with self._reads.connect() as connection:
            query = select(table).where(table.c.answer.is_(None)).order_by(table.c.id)
            return [_approval(row) for row in connection.execute(query)]

    def answered(self, offset: int, limit: int) -> tuple[list[ApprovalRow], int]:
        """Of all runs, newest first, and how many there are."""
        table = schema.approval
        with self._reads.connect() as connection:
            query = select(table).where(table.c.answer.is_not(None)).order_by(table.c.id.desc())
            rows = connection.execute(query.offset(offset).limit(limit))
            total = select(func.count()).select_from(table).where(table.c.answer.is_not(None))
            return [_approval(row) for row in rows], connection.execute(total).scalar_one()

    def one(self, number: int) -> ApprovalRow | None:
        with self._reads.connect() as connection:
            row = connection.execute(select(schema.approval).filter_by(id=number)).first()
            return _approval(row) if row else None

    def ask(
        self,
        run: str,
        kind: ApprovalKind,
        subject: str,
        *,
        cycle: int,
        text: str,
        evidence: dict[str, Any],
        timeout_s: float,
        on_timeout: str,
    ) -> ApprovalRow:
        """The question with this subject; it is asked now unless it was before. `timeout_s` 0: it
        waits until somebody answers."""
        table = schema.approval
        with self._engine.begin() as connection:
            same = select(table).filter_by(run=run, kind=kind, subject=subject)
            if (row := connection.execute(same).first()) is not None:
                return _approval(row)
            now = time.time()
            values = {
                "run": run,
                "cycle": cycle,
                "kind": kind,
                "subject": subject,
                "text": text,
                "evidence": evidence,
                "asked_at": now,
                "expires_at": now + timeout_s if timeout_s else None,
                "on_timeout": on_timeout,
            }
            row = connection.execute(insert(table).values(values).returning(table)).one()
            data = {"cycle": cycle, "kind_of_approval": kind, "text": text, "approval": row.id}
            insert_event(connection, run, "approval_needed", data)
            return _approval(row)

    def answer(self, approval: ApprovalRow, answer: ApprovalAnswer) -> bool:
        """Record an answer; False where another one came first."""
        table, body = schema.approval, msgspec.to_builtins(answer)
        with self._engine.begin() as connection:
            changed = connection.execute(
                update(table)
                .where(table.c.id == approval.id, table.c.answer.is_(None))
                .values(answer=body)
            )
            if not changed.rowcount:
                return False
            kind = "approved" if answer.approved else "rejected"
            data = {"cycle": approval.cycle, "kind_of_approval": approval.kind, **body}
            # An event has a time of its own.
            del data["at"]
            insert_event(connection, approval.run, kind, data)
            return True

    def retire(self, approval: ApprovalRow) -> None:
        """The answer has had its effect: the same question may be asked again."""
        table = schema.approval
        with self._engine.begin() as connection:
            connection.execute(
                update(table)
                .where(table.c.id == approval.id)
                .values(subject=f"{approval.subject} (question {approval.id})")
            )

    def wait(self, run: str, reason: str) -> bool:
        """Let the run wait for its open question; False where it has been answered, or a stop was
        requested, in the meantime."""
        table = schema.approval
        is_open = select(table.c.id).where(table.c.run == run, table.c.answer.is_(None)).exists()
        with self._engine.begin() as connection:
            changed = connection.execute(
                update(schema.run)
                .where(
                    schema.run.c.id == run,
                    schema.run.c.state == "running",
                    schema.run.c.stop_requested.is_(False),
                    is_open,
                )
                .values(state="waiting", reason=reason)
            )
            if changed.rowcount:
                insert_event(connection, run, "run_waiting", {"reason": reason})
            return bool(changed.rowcount)


def _approval(row: Row[Any]) -> ApprovalRow:
    values = {name: getattr(row, name) for name in ApprovalRow.__struct_fields__}
    return msgspec.convert(values, ApprovalRow)
