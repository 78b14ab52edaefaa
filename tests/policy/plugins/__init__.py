"""A package of policies as a third party would ship it; LeRobot finds it by its modules' names."""

from lefleet.policy.families import Family, vouch
from tests.policy.plugins import configuration_tiny as configuration_tiny

vouch("tiny_flow", Family("shared", "its chunk depends on the request and its seed alone"))
vouch("tiny_leaky", Family("shared", "its author says so, and is wrong"))
