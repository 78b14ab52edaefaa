"""Child processes of the tests import LeRobot without diffusers, as users have it, and see one
core.

Only tests that serve a diffusion policy need it, and those load it in their own process. With it,
every child would spend over two seconds more on imports. The workers of the tests use all cores
already: a simulator for each would cost its imports, and save nothing.
"""

import os
import sys

sys.modules["diffusers"] = None
os.sched_getaffinity = lambda _: {0}
