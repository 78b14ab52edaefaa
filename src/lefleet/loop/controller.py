"""The controller of a run: takes the next step until there is none."""

import sys
import time
import traceback
from contextlib import closing
from functools import partial
from pathlib import Path

from lefleet.constitution import reinstated
from lefleet.errors import (
    BadInput,
    ClusterUnreachable,
    Denied,
    LeaseLost,
    LedgerUnavailable,
    LeFleetError,
)
from lefleet.executors import for_plan
from lefleet.ledger import ApprovalRow, RunRow, open_ledger
from lefleet.ledger.journal import EventJournal
from lefleet.loop.approvals import (
    ApprovalQuestion,
    must_ask,
    question_about,
    timed_out,
    waiting_words,
    with_answer,
)
from lefleet.loop.attempts import Attempts
from lefleet.loop.decide import make_decision
from lefleet.loop.diagnosis import write_diagnosis
from lefleet.loop.limits import backoff_s, reached, usage, would_exceed
from lefleet.loop.outlook import Outlook
from lefleet.loop.preload import NOTE, Preload
from lefleet.loop.proposals import Proposals
from lefleet.loop.requests import count_tasks, cycle_inputs, make_request, stage_folder
from lefleet.loop.rules import RunRules, denial
from lefleet.loop.stage_process import (
    Cancellation,
    StageCancelled,
    StageGone,
    StageMonitor,
    carry_out,
)
from lefleet.loop.state import DEVICE_STAGES, RunState, read_state, stored_config
from lefleet.loop.status import SUMMARY, write_summary
from lefleet.loop.steps import AwaitAnswer, Decide, EndRun, Propose, RunStage, next_step, place_of
from lefleet.loop.success_plot import PLOT
from lefleet.records import Request
from lefleet.stages.folder import RECORD
from lefleet.stages.progress import ProgressWriter

_POLL_S = 0.5
_SERVER_WAIT_S = 600.0
"""How long a controller waits for a ledger whose server does not answer."""
_MAX_FAILURES = 100
"""Of the ledger's server during the life of a controller, before that gives up."""


class Controller:
    """One run's controller. Single-threaded; all that it knows it reads from the ledger.

    It holds the run for as long as it lives. A second controller finds it held and leaves. The hold
    is not inherited by stage processes, which outlive a controller. With `may_fork`, stage
    processes are forks of this one, which imports LeRobot for them.

    Where the ledger's server goes away, it is as if the controller had been killed at this moment:
    it reads the run again and continues from there, so that nothing is written twice.
    """

    def __init__(self, workdir: Path, run: str, *, may_fork: bool = False) -> None:
        self._run = run
        self._workdir = workdir
        self._folder = workdir / run
        self._ledger = open_ledger(
            workdir, create=False, migrate=False, patience_s=_SERVER_WAIT_S if may_fork else 0.0
        )
        self._read()
        self._preload = Preload(self._config, may_fork=may_fork)

    def _read(self) -> None:
        """What is known of the run from the ledger alone."""
        row = self._row()
        self._config = stored_config(row)
        self._executor = for_plan(self._config.executor, self._ledger.controllers.renew)
        self._attempts = Attempts(self._ledger, self._run, self._folder, self._executor)
        self._created_at = row.created_at
        self._rules = RunRules(self._ledger, self._workdir, row, self._config)
        self._proposals = Proposals(self._ledger, self._workdir, self._run, self._rules)
        self._outlook = Outlook(self._ledger, self._workdir, self._run, self._config)

    def run(self) -> int:
        """Until the run has ended; the exit code says how."""
        with closing(self._ledger), self._ledger.controllers.hold(self._run) as is_mine:
            if not is_mine:
                return 0
            self._folder.mkdir(parents=True, exist_ok=True)
            failures = 0
            while True:
                try:
                    if failures:
                        self._read()
                    return self._until_the_end()
                except LedgerUnavailable as error:
                    failures += 1
                    if failures == _MAX_FAILURES:
                        raise
                    sys.stderr.write(f"{NOTE} {error} Reading the run again.\n")
                    time.sleep(_POLL_S)

    def _until_the_end(self) -> int:
        with reinstated(), EventJournal(self._ledger, self._run, self._folder) as events:
            events.write_new()
            if self._row().state == "running":
                self._work(events)
            else:
                self._complete()
            return 1 if self._row().state in ("failed", "denied") else 0

    def _work(self, events: EventJournal) -> None:
        """Step by step. The run's state changes last, so a run that has ended has its summary. A
        run that waits for a person keeps nothing but its row."""
        end = self._install_rules()
        self._outlook.refresh()
        while end is None or not self._end(end):
            self._ledger.controllers.renew()
            events.write_new()
            self._outlook.tell()
            end = self._advance(events)
        events.write_new()
        self._outlook.tell()

    def _end(self, end: EndRun) -> bool:
        """End or suspend the run; False where it goes on after all."""
        if end.state != "failed":
            self._attempts.settle(end.reason)
        row = self._row()._replace(state=end.state, reason=end.reason)
        self._summarize(row)
        self._outlook.refresh(row)
        if end.state == "waiting":
            is_waiting = self._ledger.approvals.wait(self._run, end.reason)
            return is_waiting or self._row().state != "running"
        self._ledger.set_run_state(self._run, end.state, end.reason)
        return True

    def _complete(self) -> None:
        """Write what is missing of the files of a run that has ended."""
        if not all((self._folder / name).exists() for name in (SUMMARY, PLOT)):
            self._summarize(self._row())

    def _summarize(self, row: RunRow) -> None:
        # A full disk must not hide how the run ended; these files can be made at any time.
        try:
            write_summary(self._ledger, row, self._folder)
            if row.state != "waiting":
                write_diagnosis(self._ledger, row, self._folder)
        except OSError:
            traceback.print_exc()

    def _row(self) -> RunRow:
        row = self._ledger.run(self._run)
        if row is None:
            where = self._folder.parent
            raise BadInput(
                f"run: there is no run called {self._run} in {where}.", "See: lefleet status"
            )
        return row

    def _advance(self, events: EventJournal) -> EndRun | None:
        """Do the next thing; returns the end of the run when it has come."""
        state = read_state(self._ledger, self._row())
        step = next_step(state)
        try:
            if not isinstance(step, EndRun | AwaitAnswer) and self._asks_about_rules(state):
                return None
            match step:
                case EndRun():
                    return step
                case AwaitAnswer(approval):
                    return self._await(approval)
                case Propose(cycle):
                    settled = self._proposals.settle(state, cycle)
                    self._ledger.record_proposal(self._run, settled)
                case Decide(cycle):
                    self._decide(state, cycle)
                case RunStage(cycle, stage):
                    return self._stage_or_wait(state, events, cycle, stage)
        except Denied as error:
            return self._denied(error, state)
        except BadInput as error:
            return EndRun("failed", str(error))
        return None

    def _install_rules(self) -> EndRun | None:
        try:
            self._rules.install()
        except Denied as error:
            return self._denied(error, read_state(self._ledger, self._row()))
        return None

    def _denied(self, error: Denied, state: RunState) -> EndRun:
        cycle, _ = place_of(state)
        self._ledger.add_event(self._run, "denied", denial(error, cycle))
        return EndRun("denied", str(error))

    def _asks_about_rules(self, state: RunState) -> bool:
        """Ask a person about a constitution that has changed, where one has to be asked."""
        question = self._rules.review(state)
        if question is not None:
            self._ask(question)
        return question is not None

    def _ask(self, question: ApprovalQuestion) -> None:
        plan = self._config.approvals
        self._ledger.approvals.ask(
            self._run,
            question.kind,
            question.subject,
            cycle=question.cycle,
            text=question.text,
            evidence=question.evidence,
            timeout_s=3600 * plan.timeout_hours,
            on_timeout=plan.on_timeout,
        )

    def _await(self, approval: ApprovalRow) -> EndRun | None:
        """The run waits without a process; whoever answers starts its controller again."""
        answer = timed_out(approval, time.time())
        if answer is None:
            return EndRun("waiting", waiting_words(approval))
        self._ledger.approvals.answer(approval, answer)
        return None

    def _decide(self, state: RunState, cycle: int) -> None:
        """Record the decision, once a person has been asked where one has to be."""
        decision = make_decision(state, cycle)
        question = question_about(decision)
        asked = state.approval(question.kind, question.subject) if question else None
        if asked is not None and asked.answer is not None:
            # Also where nobody would be asked any more: what a person said holds.
            blessed = state.blessed()
            decision = with_answer(decision, asked.answer, blessed.digest if blessed else "")
        elif question is not None and must_ask(
            decision, self._config.approvals, moves_hardware=self._rules.moves_hardware
        ):
            self._ask(question)
            return
        self._ledger.record_decision(self._run, decision)
        self._outlook.refresh()

    def _stage_or_wait(
        self, state: RunState, events: EventJournal, cycle: int, stage: str
    ) -> EndRun | None:
        """While its cluster does not answer, nothing is known of a stage, and its attempt stays
        open: later the job is found there, or is gone."""
        try:
            return self._stage(state, events, cycle, stage)
        except ClusterUnreachable as error:
            self._attempts.tell_wait(cycle, stage, str(error))
            if limit := reached(self._config.budgets, usage(state, self._wall_s())):
                return EndRun("finished", limit)
            time.sleep(_POLL_S)
            return None

    def _stage(
        self, state: RunState, events: EventJournal, cycle: int, stage: str
    ) -> EndRun | None:
        folder = stage_folder(self._folder, cycle, stage)
        if stage == "propose":
            request: Request = self._proposals.request(state, cycle, folder)
        else:
            request = make_request(cycle_inputs(state, self._folder, cycle), stage)
        self._rules.current.check_request(request)
        match self._rules.hardware(state, cycle, request):
            case ApprovalQuestion() as question:
                self._ask(question)
                return None
            case EndRun() as end:
                return end
        after = self._row().resumed_after
        is_running = self._executor.find(folder) is not None
        left = self._attempts.unfinished()
        if not is_running and not (folder / RECORD).exists():
            for attempt in left:
                self._attempts.abandon(attempt)
            if left:
                return None
            self._attempts.begin_anew(cycle, stage, request)
            if limit := self._limit(state, request):
                return EndRun("finished", limit)
            if wait := backoff_s(self._attempts.of(cycle, stage), after, time.time()):
                # Read the ledger again meanwhile: a stop may be requested.
                time.sleep(min(wait, _POLL_S))
                return None
        monitor = StageMonitor(
            self._ledger,
            self._run,
            folder,
            state,
            self._wall_s,
            worked_s=sum(one.worked_s(time.time()) for one in left),
            uses_device=stage in DEVICE_STAGES,
        )

        def on_launch() -> int:
            self._preload.finish(ProgressWriter(folder))
            attempt = self._ledger.start_attempt(self._run, cycle, stage, request)
            events.write_new()
            monitor.begin()
            return attempt.attempt

        def on_wait(what: str) -> None:
            monitor.waits()
            self._attempts.waits(cycle, stage, what)

        def must_end() -> Cancellation | None:
            self._ledger.controllers.renew()
            events.write_new()
            self._preload.import_next()
            return monitor.must_end()

        try:
            record = carry_out(
                request,
                folder,
                self._executor,
                must_end=must_end,
                on_launch=on_launch,
                on_wait=on_wait,
                on_silence=partial(self._attempts.tell_wait, cycle, stage),
            )
        except (LedgerUnavailable, LeaseLost, ClusterUnreachable):
            raise  # They say nothing of the stage, which goes on.
        except (StageCancelled, StageGone, LeFleetError) as error:
            attempt = self._attempts.current(cycle, stage, request)
            return self._attempts.conclude(
                attempt, error, after=after, most=self._config.max_attempts
            )
        self._attempts.commit(self._attempts.current(cycle, stage, request), record)
        return None

    def _limit(self, state: RunState, request: Request) -> str:
        """The budget that does not allow to start a stage, in words."""
        budgets, used = state.config.budgets, usage(state, self._wall_s())
        planned = would_exceed(budgets, used, request, count_tasks(self._config))
        return reached(budgets, used) or planned

    def _wall_s(self) -> float:
        return time.time() - self._created_at
