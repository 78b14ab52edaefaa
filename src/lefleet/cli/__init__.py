"""The `lefleet` command: arguments in, stages run as child processes, calm output.

    main       entry point, exit codes, error style
    commands   every command's arguments
    loop       commands about whole runs
    viewer     look at a run until it ends
    stage      run one stage as a child process
    display    progress and results for people, plain lines or JSON for everyone else
    doctor     is this machine ready?

On top of everything: imports `stages` and `records`, is imported by nobody. Nothing here imports
torch, LeRobot or MuJoCo, so `lefleet --help` answers at once.
"""

from lefleet.cli.main import main

__all__ = ["main"]
