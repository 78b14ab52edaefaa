"""Pure statistics: numbers in, numbers out; numpy and scipy only.

May be imported by every folder, imports none of them.
"""

from lefleet.stats.intervals import exact_interval
from lefleet.stats.sign import sign_test

__all__ = ["exact_interval", "sign_test"]
