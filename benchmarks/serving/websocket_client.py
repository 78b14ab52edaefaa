"""How a robot asks the websocket server."""

from websockets.sync.client import connect

from benchmarks.serving import body
from benchmarks.serving.scene import Answer, Scene


class WebsocketClient:
    """One connection for good, as simple clients keep it."""

    def __init__(self, address: str, images: body.Images) -> None:
        self._images = images
        self._connection = connect(f"ws://{address}", compression=None, max_size=None)

    def infer(self, scene: Scene) -> Answer:
        self._connection.send(body.ask(scene, self._images))
        return body.read(self._connection.recv())

    def close(self) -> None:
        self._connection.close()
