"""Drive episodes of the detour with a policy that `lefleet serve` runs.

lefleet serve detour                                     # the blessed checkpoint of the run
python examples/detour/drive.py tcp/127.0.0.1:7447       # in another terminal
"""

import argparse

from detour.env import DetourEnv

from lefleet_client import RemotePolicy, RobotFeatures

ROBOT = RobotFeatures(
    action_names=("x.vel", "y.vel"),
    vectors={
        "observation.state": ("x.pos", "y.pos"),
        "observation.environment_state": ("goal_x", "goal_y", "obstacle_x", "obstacle_y"),
    },
    cameras={},
    fps=10,
    robot_type="detour",
)


def drive(policy: RemotePolicy, seed: int) -> bool:
    """One episode; whether it succeeded."""
    env = DetourEnv()
    observation, _ = env.reset(seed=seed)
    for _ in range(60):
        chunk = policy.infer(
            {
                "observation.state": observation["agent_pos"],
                "observation.environment_state": observation["environment_state"],
            }
        )
        observation, _, success, _, _ = env.step(chunk.robot[0])
        if success:
            return True
    return False


def main(endpoint: str, episodes: int) -> None:
    with RemotePolicy(endpoint, robot=ROBOT) as policy:
        successes = sum(drive(policy, seed) for seed in range(900_000_000, 900_000_000 + episodes))
    print(f"{successes} of {episodes} episodes succeeded")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("endpoint")
    parser.add_argument("--episodes", type=int, default=10)
    main(**vars(parser.parse_args()))
