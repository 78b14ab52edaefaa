"""A websocket server of the `websockets` library: one thread for each robot, one policy."""

from websockets.exceptions import ConnectionClosed
from websockets.sync.server import ServerConnection, serve

from benchmarks.serving import body
from benchmarks.serving.ready import options, say_ready


def main() -> None:
    given = options()

    def handle(connection: ServerConnection) -> None:
        try:
            for message in connection:
                connection.send(body.serve(message, given.policy))
        except ConnectionClosed:
            return

    with serve(handle, given.host, given.port, compression=None, max_size=None) as server:
        say_ready()
        server.serve_forever()


if __name__ == "__main__":
    main()
