"""`lefleet dash`: the pages and the JSON API, one process per work folder.

    server   the app: guard, API and pages together; runs until a signal
    guard    who may reach it: Host, Origin, sessions and tokens, headers of every answer
    tokens   named tokens of people who are not on this machine, and what each may do
    api      the JSON API with its OpenAPI description: the stable surface
    media    films and videos, by what they are of, never by their path
    live     watches the ledger and tells open pages what has changed
    charts   evidence, success, training and tracks as options for ECharts (pure)
    theme    colours, type and spacing, for light and dark
    pages/   one module per page

Reads through `queries` and writes through `actions`; it owns no state but sessions of people who
have logged in. `cli` starts it. NiceGUI and FastAPI are imported here and nowhere else.
"""
