"""MetaWorld as a LeRobot environment with states, and images on request: a plugin, not a fork.

`--env.discover_packages_path=lefleet.sim --env.type=lefleet_metaworld` makes it known to the
stock `lerobot-train` and `lerobot-eval`: LeRobot imports the modules of this package, and
`plugin` registers the environment.

    tasks    the 50 tasks, their instructions and horizons, task sets (no heavy imports)
    world    one MetaWorld simulation: seeds, steps, progress; scripted experts
    encode   raw MetaWorld observation to policy vectors, with the names of every column
    render   off-screen frames, and the OpenGL library for them
    plugin   the gym environment and LeRobot's registry entry

Imports nothing of lefleet but `errors` and `experts`. `rollouts` steps `world` directly; LeRobot's
own programs come in through `plugin`.
"""

from lefleet.sim.render import choose_graphics

choose_graphics()
