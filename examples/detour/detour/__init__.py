"""An environment of your own: a point drives to a goal around an obstacle.

env      the gym environment, which knows nothing of LeRobot or LeFleet
expert   a script that solves it
plugin   makes both known: LeRobot imports it for `discover_packages_path: detour`
"""
