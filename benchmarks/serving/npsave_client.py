"""How a robot asks the server that packs arrays as GR00T's does."""

import zmq

from benchmarks.serving import npsave_body
from benchmarks.serving.scene import Answer, Scene


class NpsaveClient:
    """One REQ socket."""

    def __init__(self, address: str) -> None:
        self._socket = zmq.Context.instance().socket(zmq.REQ)
        self._socket.setsockopt(zmq.LINGER, 0)
        self._socket.connect(f"tcp://{address}")

    def infer(self, scene: Scene) -> Answer:
        self._socket.send(npsave_body.ask(scene))
        return npsave_body.read(self._socket.recv())

    def close(self) -> None:
        self._socket.close()
