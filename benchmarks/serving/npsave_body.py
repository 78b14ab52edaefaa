"""Observations and chunks as GR00T's server packs them: MessagePack around `np.save`."""

import io
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from benchmarks.serving.scene import CAMERAS, TASK, Answer, Scene, StubPolicy


def ask(scene: Scene) -> bytes:
    """An observation on its way to a server."""
    images = {camera: _saved(image) for camera, image in scene.images.items()}
    return msgspec.msgpack.encode({"state": _saved(scene.state), "images": images, "task": TASK})


def serve(message: bytes, policy: StubPolicy) -> bytes:
    """What a server does with a message: decode, predict, encode."""
    question = msgspec.msgpack.decode(message)
    images = {camera: _loaded(data) for camera, data in question["images"].items()}
    chunk = policy.predict(_loaded(question["state"]), images[CAMERAS[0]])
    return msgspec.msgpack.encode({"model": _saved(chunk), "robot": _saved(chunk)})


def read(message: bytes) -> Answer:
    """A chunk that came back."""
    reply = msgspec.msgpack.decode(message)
    return Answer(_loaded(reply["model"]), _loaded(reply["robot"]))


def _saved(array: NDArray[Any]) -> bytes:
    output = io.BytesIO()
    np.save(output, array, allow_pickle=False)
    return output.getvalue()


def _loaded(data: bytes) -> NDArray[Any]:
    loaded: NDArray[Any] = np.load(io.BytesIO(data), allow_pickle=False)
    return loaded
