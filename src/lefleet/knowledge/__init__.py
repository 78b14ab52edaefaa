"""Knowledge: pages about tasks, policies and runs, for people and for whatever proposes.

    facts             what the ledger knows of every run, in the form that pages need
    comparisons       two checkpoints in the same tasks
    lessons           what the statistics teach, in plain sentences
    experiment_page   the page of a run
    task_page         the page of a task
    policy_page       the page of a policy
    drafts            what all pages share
    markup            text of others made safe, and small forms of Markdown
    fences            generated sections between the text of people
    front_matter      the YAML in front of a page
    merge             a draft and the page as it stands become the new page
    bundle            the folder on disk
    ingest            writes the pages
    lint              what is wrong with pages, and what that means for the next proposal
    search            a list of pages, full text search, extracts for a language model

Reads the ledger and writes `WORKDIR/knowledge`; marks of what it wrote go into the ledger. Pages
only advise: no decision reads them. Imports `errors`, `records`, `stats`, `stages` and `ledger`;
`loop` calls `ingest` after each decision, and `cli` shows what is there.
"""

from lefleet.knowledge.ingest import ingest, update
from lefleet.knowledge.lint import Finding, lint, suggestions
from lefleet.knowledge.search import context, pages, search

__all__ = ["Finding", "context", "ingest", "lint", "pages", "search", "suggestions", "update"]
