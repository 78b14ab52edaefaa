"""A policy whose actions say what they were computed from, as a plugin for LeRobot."""

from lefleet.policy.families import Family, vouch
from tests.edge.stamped import configuration_stamped as configuration_stamped

vouch("stamped", Family("shared", "its chunk depends on the request alone"))
