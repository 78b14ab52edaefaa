"""The `lefleet` command: arguments in, stages run as child processes, calm output.

    main       entry point, exit codes, error style
    commands   every command's arguments
    loop       commands about whole runs
    viewer     look at a run until it ends
    stage      run one stage as a child process
    display    progress and results for people, plain lines or JSON for everyone else
    doctor     is this machine ready?
    serving    arguments of the commands about policy servers
    serve, router, fleet, ping, replay, contract   these commands
    network    how they connect, and their errors
    logs       what a server says to its operator

On top of everything: imports `stages`, `records` and `server`, is imported by nobody. What imports
torch, LeRobot or MuJoCo is itself imported late, so that `lefleet --help` answers at once.
"""

from lefleet.cli.main import main

__all__ = ["main"]
