"""A policy that runs elsewhere, for a robot: observations in, chunks out, numpy on both sides.

    errors       what can go wrong, as the robot's operator needs to know it
    observation  a robot's features and arrays, and the body of an observation
    checks       whether what a server says can be true
    discovery    which servers are there, which fit, whether one acknowledged what was asked
    states       state, events and actions of the connection
    machine      the connection's transitions, as a pure function
    endpoints    what is declared and asked for one session, and what callbacks leave
    connection   performs the actions, and feeds the events
    exchange     one call: choose the image codec, send, wait, send again, until a chunk comes
    guard        one caller at a time, and closing from any thread or signal handler
    policy       RemotePolicy
    ping         where the time goes
    robots       what a robot reports of itself, for operators

Arrays come from a robot's control loop and go back there; bytes go through `wire` and `transport`.
All state that outlives a call is on this side, so any replica can answer the next observation.
Imports numpy, and OpenCV where images are resized. Robots, lefleet's commands and tests may import
it.
"""

from lefleet_client.remote.discovery import discover
from lefleet_client.remote.errors import (
    BadChunk,
    BadObservation,
    NoServer,
    Refused,
    RemoteError,
    Replaced,
    RequestRejected,
    ServerDraining,
    SessionLost,
    SeveralServices,
    TimedOut,
    WrongModel,
)
from lefleet_client.remote.exchange import RemoteChunk, Timing
from lefleet_client.remote.observation import RobotFeatures
from lefleet_client.remote.ping import PingReport, Spread, example_observation, ping
from lefleet_client.remote.policy import RemotePolicy
from lefleet_client.remote.robots import (
    RobotReport,
    RobotsFound,
    discover_robots,
    watch_robots,
)
from lefleet_client.remote.states import ConnectionNotice

__all__ = [
    "BadChunk",
    "BadObservation",
    "ConnectionNotice",
    "NoServer",
    "PingReport",
    "Refused",
    "RemoteChunk",
    "RemoteError",
    "RemotePolicy",
    "Replaced",
    "RequestRejected",
    "RobotFeatures",
    "RobotReport",
    "RobotsFound",
    "ServerDraining",
    "SessionLost",
    "SeveralServices",
    "Spread",
    "TimedOut",
    "Timing",
    "WrongModel",
    "discover",
    "discover_robots",
    "example_observation",
    "ping",
    "watch_robots",
]
