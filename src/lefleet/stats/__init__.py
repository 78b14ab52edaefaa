"""Pure statistics: numbers in, numbers out; numpy and scipy only.

May be imported by every folder, imports none of them.
"""

from lefleet.stats.intervals import exact_interval

__all__ = ["exact_interval"]
