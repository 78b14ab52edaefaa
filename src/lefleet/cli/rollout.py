"""rollout: a robot at work, with LeRobot's strategies and flags."""

from lefleet.cli.network import network_errors
from lefleet.errors import BadInput


@network_errors()
def rollout(arguments: list[str]) -> int:
    """Drive a robot until its strategy ends, Ctrl-C, or the policy is lost for good."""
    from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators
    from lerobot.utils.import_utils import register_third_party_plugins
    from lerobot.utils.process import ProcessSignalHandler
    from lerobot.utils.utils import init_logging

    import lefleet.robots  # noqa: F401 - registers the simulated ones
    from lefleet.edge.flags import parse_flags
    from lefleet.edge.rollout import run_rollout

    register_third_party_plugins()
    cfg = parse_flags(arguments)
    init_logging()
    shutdown_event = ProcessSignalHandler(use_threads=True, display_pid=False).shutdown_event
    try:
        run_rollout(cfg, shutdown_event)
    except ValueError as error:
        raise BadInput(f"{error}.") from error
    return 0
