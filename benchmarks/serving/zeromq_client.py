"""How a robot asks the ZeroMQ server."""

import zmq

from benchmarks.serving import body
from benchmarks.serving.scene import Answer, Scene

# Without it, a server that dies in mid-request is waited for without end.
_PATIENCE_MS = 2000


class ZeromqClient:
    """One REQ socket."""

    def __init__(self, address: str, images: body.Images) -> None:
        self._images = images
        self._socket = zmq.Context.instance().socket(zmq.REQ)
        self._socket.setsockopt(zmq.RCVTIMEO, _PATIENCE_MS)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(f"tcp://{address}")

    def infer(self, scene: Scene) -> Answer:
        self._socket.send(body.ask(scene, self._images), copy=False)
        return body.read(self._socket.recv(copy=False).buffer)

    def close(self) -> None:
        self._socket.close()
