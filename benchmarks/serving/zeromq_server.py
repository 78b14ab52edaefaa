"""A ZeroMQ server: one REP socket, one thread."""

import zmq

from benchmarks.serving import body
from benchmarks.serving.ready import options, say_ready


def main() -> None:
    given = options()
    socket = zmq.Context().socket(zmq.REP)
    socket.bind(f"tcp://{given.host}:{given.port}")
    say_ready()
    while True:
        message = socket.recv(copy=False)
        socket.send(body.serve(message.buffer, given.policy))


if __name__ == "__main__":
    main()
