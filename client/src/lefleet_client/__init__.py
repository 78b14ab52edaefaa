"""The robot's side of LeFleet: a small package that a robot can install alone.

    wire       the messages of robots and policy servers, as bytes
    transport  how bytes get from one to the other

`transport` imports `wire`, never the reverse. lefleet depends on this package, and nothing here
may import lefleet, torch or lerobot. Importing the package itself loads none of its folders.
"""

__version__ = "0.1.0"
