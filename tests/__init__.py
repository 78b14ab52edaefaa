"""Tests mirror src/lefleet; `samples` holds small values that many of them need."""

from hypothesis import HealthCheck, settings

# A busy machine must not fail a test.
settings.register_profile("patient", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")
