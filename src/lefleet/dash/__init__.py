"""`lefleet dash`: the pages and the JSON API, one process per work folder.

    server         the app: guard, API and pages together; runs until a signal
    address        where the dashboard of a work folder is; for all commands
    guard          who may reach it: hosts, origins, people
    incoming       headers and body of a request, read strictly
    answers        the guard's own answers and pages, and the headers of every answer
    hosts          names and addresses that it answers to
    peers          which user of this machine is at the other end of a connection
    tokens         named tokens of people who are not on this machine, and what each may do
    sessions       who has logged in with one, and how often an address may try
    nicegui_setup  what NiceGUI is told: nonces, sockets of one person, folders
    context        what pages and API know of their process
    api            the JSON API with its OpenAPI description: the stable surface
    media          films and videos, by what they are of, never by their path
    live           watches the ledger and tells open pages what has changed
    charts         evidence, success, training and tracks as options for ECharts (pure)
    theme          colours, type and spacing, for light and dark
    pages          one module per page

Reads through `queries` and writes through `actions`; it owns no state but sessions of people who
have logged in. `cli` starts it. NiceGUI and FastAPI are imported here and nowhere else.
"""
