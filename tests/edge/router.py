"""A Zenoh router as a process of its own: `python -m tests.edge.router ENDPOINT`.

It prints where it listens, and ends with its stdin.
"""

import sys

from tests.client.transport.networks import Router

if __name__ == "__main__":
    router = Router(sys.argv[1])
    print(router.endpoint, flush=True)
    sys.stdin.read()
