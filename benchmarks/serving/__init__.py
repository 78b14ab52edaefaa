"""Our policy server beside other ways to ask a policy over a network: transport, and nothing else.

    scene            what robots see: one observation and its answer, the same for every stack
    body             that as MessagePack, for the peers that have no format of their own
    stacks           who is measured: a server module and a client for each
    *_server         one server process each, `python -m benchmarks.serving.<stack>_server`
    *_client         how a robot asks that server
    edge             the process of the robots: asks when told to, and tells what came of it
    children         server and robot processes, their orders and their processor time
    links            the same host and slower links, each in network namespaces of its own
    measuring        a pair of processes for each stack, asked in turns

No policy computes anything: every server looks at the observation just enough to prove that it
has it, and answers with a constant chunk. Nothing outside `benchmarks` imports this folder.
"""

from importlib import import_module
from typing import Any


def measure(workshop: Any) -> Any:
    """The benchmark `serving`; imported late, because servers and robots import this package."""
    return import_module("benchmarks.serving.comparison").measure(workshop)
