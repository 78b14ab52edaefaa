"""A remote policy and a server that behaves."""

import logging
import threading

import numpy as np
import pytest

import lefleet_client
from lefleet_client import wire
from lefleet_client.remote import BadObservation, RemoteError, RemotePolicy, RobotFeatures
from tests.client.remote.scripted import CONTRACT, STATE, STEPS, TOP, answer, observation
from tests.client.transport.waiting import bounded


def test_an_observation_becomes_a_chunk(any_world):
    server = any_world.server()
    policy = any_world.robot(task="fold")
    chunk = policy.infer(observation(2.0, image=True))
    np.testing.assert_array_equal(chunk.model, np.full((STEPS, 2), 6, np.float32))
    np.testing.assert_array_equal(chunk.robot, chunk.model * 2)
    assert chunk.model.dtype == chunk.robot.dtype == np.float32
    assert (chunk.server, chunk.digest, chunk.load) == ("a", "d1", 0.5)
    last = server.observations[-1]
    assert (last.body.task, last.header.seq_id) == ("fold", chunk.seq_id)
