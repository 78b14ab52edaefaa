"""Tests of lefleet_client: they mirror client/src/lefleet_client."""
