"""LeRobot's side of the edge: a robot's control loop whose policy is on a server.

    guard    limits around `Robot.send_action`, the last code before the driver

The control loop, recording and teleoperation are LeRobot's own rollout; this folder adds the
inference engine, the guard and a rollout context without weights. Imports `errors` and `records`
of lefleet, the client and LeRobot; not `robots`, since it drives any LeRobot robot. `cli` may
import it. Observations come from the robot and go to a policy server through the client; chunks
come back, and their actions go through the guard to the robot.
"""
