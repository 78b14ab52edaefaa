"""`lefleet try`: a policy server and simulated robots on this machine, watched while they work.

    messages  what is asked, and what the processes tell each other, as JSON lines
    members   child processes that are told lines and answer in lines
    host      the program that checks the checkpoint, starts all others and passes on what they say
    robot     the program of a robot
    film      the program that films an episode from its commands, when that is over
    status    what has happened so far, folded from messages; pure

The command starts the host, which loads LeRobot once and forks server, robots and filming program.
Imports `records`, `process`, `sim`, `stages`, `rollouts`, `robots` and `testbed`; `cli` imports it.
Commands of finished episodes go from robots to the filming program, and films to `--out`.
"""
