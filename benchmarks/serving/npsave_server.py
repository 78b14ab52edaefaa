"""A ZeroMQ server that packs arrays as GR00T's does: one REP socket, one thread."""

import zmq

from benchmarks.serving import npsave_body
from benchmarks.serving.ready import options, say_ready


def main() -> None:
    given = options()
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(f"tcp://{given.host}:{given.port}")
    say_ready()
    while True:
        socket.send(npsave_body.serve(socket.recv(), given.policy))


if __name__ == "__main__":
    main()
