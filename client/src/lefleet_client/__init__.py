"""The robot's side of LeFleet: a small package that a robot can install alone.

The wire format, the transport and RemotePolicy will live here; they come with
the serving plane. For now the package only carries its version.

lefleet depends on this package, never the reverse: nothing here may import lefleet.
"""

__version__ = "0.1.0"
