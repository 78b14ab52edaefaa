"""Child processes of the tests import LeRobot as users have it: without diffusers.

Only tests that serve a diffusion policy need it, and those load it in their own process. With it,
every child would spend over two seconds more on imports.
"""

import sys

sys.modules["diffusers"] = None
