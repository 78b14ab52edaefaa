"""Attacks on a real server over real Zenoh, by programs that use nothing of ours.

    bus           a raw Zenoh session: what a hostile program learns of a server, and how it sends
    bodies        bytes that cost a careless reader much: scan bombs, repeated keys, huge strings
    attacks       the registry: every attack by its name
    attacker      the process that attacks when told to; it ends by itself

`python -m benchmarks hostile` runs the same registry beside an honest robot.
"""
