"""The `lefleet` command: arguments in, child processes started, results printed.

    main          entry point: which function runs which command, exit codes, error style
    overview      every command in one line: `lefleet --help`, misspelt commands
    options       arguments that several commands share
    commands      the arguments of most commands; those of the others are beside them
    parse         a command line to one of these commands
    usage         mistakes in a command's arguments, in a line each
    checkpoints   RUN, RUN:CYCLE, blessed, folder or hub id to a checkpoint, for all commands
    stages        collect, train, eval, improve, compare
    runs          demo, run, resume, stop
    approvals     approve, reject
    films         film
    constitution  constitution check, explain, diff, init
    knowledge     knowledge show, lint, search, update
    dash          dash, dash token add, list, revoke
    trial         try
    trial_view    a trial as a table, as lines, and its summary
    view          status, and the view of a run until it ends
    watch         runs on the screen of a terminal, with the facts of their pages
    report        the state and the results of runs
    run_report    report: one HTML file about a run
    serve         serve, replay
    contract      contract
    network       router; how commands connect, and their errors
    fleet         fleet, ping
    episodes      label, lineage: their arguments, and what they print
    certs         certs: its arguments, and what it prints
    doctor        doctor
    display       records of stages
    progress      what is going on: one line that changes, or many
    output        JSON, log lines, text of other machines made printable
    signals       Ctrl-C, SIGTERM and SIGHUP

The top of the import order: imports every other folder, and nothing imports it. Modules that import
torch, LeRobot or MuJoCo are imported inside functions, and `main` imports only `overview` before it
knows the command, so that `lefleet --help` appears at once.
Arguments come from the user; requests, configs and manifests go to `stages`, `loop` and `server`;
records and the ledger come back.
"""

from lefleet.cli.main import main

__all__ = ["main"]
