"""The pages, one module each; all of them are made of `parts` inside a `frame`.

    frame      top bar, what waits for a person, live updates, and how a page acts for its person
    parts      text, chips, cards, tables, commands to copy, films
    runs       every run in a line, and who is needed; start a run
    run        one run: flow, success, decisions, tasks, training, lineage, budgets, events
    cycle      one cycle: the decision, its evidence, the pairs behind it and their films
    approvals  questions to people with their evidence and buttons, and who said what
    fleet      servers and robots, trouble first
    episodes   recorded datasets, and the episodes of one
    episode    one episode: films, tracks, and a label by two keys
    run_parts  the parts of a run's page
    cycle_parts  the evidence on a cycle's page
    knowledge  pages about tasks, policies and runs: read, search, edit

Reads through `queries` and acts through `actions`. A page keeps nothing: what it shows is read
again when the ledger has changed.
"""

from fastapi.exceptions import RequestValidationError
from nicegui import app

from lefleet.dash.context import Context
from lefleet.dash.pages import (
    approvals,
    cycle,
    episode,
    episodes,
    fleet,
    frame,
    knowledge,
    run,
    runs,
)
from lefleet.dash.pages.frame import Site

_PAGES = (runs, run, cycle, approvals, fleet, episodes, episode, knowledge)


def register(context: Context) -> None:
    """Add all pages to the app."""
    site = Site(context)
    for page in _PAGES:
        page.register(site)
    app.on_page_exception(frame.say_sorry)
    # A cycle or an episode that is no number is in no list either.
    app.add_exception_handler(404, frame.say_missing)
    app.add_exception_handler(RequestValidationError, frame.say_missing)
    app.on_startup(site.start)
    app.on_shutdown(site.stop)
