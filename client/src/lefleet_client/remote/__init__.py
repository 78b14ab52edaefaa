"""A policy that runs elsewhere, for a robot: observations in, chunks out, numpy on both sides.

    errors      what can go wrong, as the robot's operator needs to know it
    features    what a robot says about itself
    discovery   which servers are there
    resize      images made smaller before they travel
    encoding    a robot's arrays as the body of an observation
    inbox       what the transport's threads leave for the caller
    link        one session on one server
    opening     finds a server and opens a session
    connection  the session in use, and the next one
    door        who may call, and how a call is ended
    exchange    one call: send, wait, send again
    probe       which image codec is faster
    chunk       what comes back
    policy      RemotePolicy
    ping        where the time goes

Arrays come from a robot's control loop and go back there; bytes go through `wire` and `transport`.
All state that outlives a call is on this side, so any replica can answer the next observation.
Imports numpy, and OpenCV where images are resized. Robots, lefleet's commands and tests may import
it.
"""

from lefleet_client.remote.chunk import RemoteChunk, Timing
from lefleet_client.remote.discovery import discover
from lefleet_client.remote.errors import (
    BadObservation,
    NoServer,
    Refused,
    RemoteError,
    Replaced,
    RequestRejected,
    ServerDraining,
    SeveralServices,
    TimedOut,
    WrongModel,
)
from lefleet_client.remote.features import RobotFeatures
from lefleet_client.remote.ping import PingReport, Spread, example_observation, ping
from lefleet_client.remote.policy import RemotePolicy

__all__ = [
    "BadObservation",
    "NoServer",
    "PingReport",
    "Refused",
    "RemoteChunk",
    "RemoteError",
    "RemotePolicy",
    "Replaced",
    "RequestRejected",
    "RobotFeatures",
    "ServerDraining",
    "SeveralServices",
    "Spread",
    "TimedOut",
    "Timing",
    "WrongModel",
    "discover",
    "example_observation",
    "ping",
]
