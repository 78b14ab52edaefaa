"""Which OpenGL library is chosen."""

from lefleet.sim.render import best_library


def test_egl_is_preferred_then_osmesa_then_none():
    assert best_library(lambda file: True) == "egl"
    assert best_library(lambda file: "OSMesa" in file) == "osmesa"
    assert best_library(lambda file: False) == "disable"
