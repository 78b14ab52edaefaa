"""Observations and chunks as MessagePack, for peers that have no format of their own.

Arrays are sent as their bytes and read as views of the message, as a fast peer would do it.
"""

from typing import Any, Literal

import cv2
import msgspec
import numpy as np
import simplejpeg
from numpy.typing import NDArray

from benchmarks.serving.scene import CAMERAS, QUALITY, TASK, Answer, Scene, StubPolicy

Images = Literal["raw", "resized", "jpeg"]
RESIZED = 224


class Picture(msgspec.Struct, array_like=True):
    """One camera's image."""

    shape: tuple[int, int, int]
    is_jpeg: bool
    data: memoryview


class Question(msgspec.Struct, array_like=True):
    """One observation."""

    state: memoryview
    images: dict[str, Picture]
    task: str


class Reply(msgspec.Struct, array_like=True):
    """One chunk, twice."""

    shape: tuple[int, int]
    model: memoryview
    robot: memoryview


_encode = msgspec.msgpack.Encoder().encode
_read_question = msgspec.msgpack.Decoder(Question).decode
_read_reply = msgspec.msgpack.Decoder(Reply).decode


def ask(scene: Scene, images: Images) -> bytes:
    """An observation on its way to a server."""
    pictures = {camera: _picture(image, images) for camera, image in scene.images.items()}
    return _encode(Question(scene.state.data, pictures, TASK))


def serve(message: bytes | memoryview, policy: StubPolicy) -> bytes:
    """What a server does with a message: decode, predict, encode."""
    question = _read_question(message)
    images = {camera: _pixels(picture) for camera, picture in question.images.items()}
    state = np.frombuffer(question.state, np.float32)
    chunk = policy.predict(state, images[CAMERAS[0]])
    return _encode(Reply(chunk.shape, chunk.data, chunk.data))


def read(message: bytes | memoryview) -> Answer:
    """A chunk that came back."""
    reply = _read_reply(message)
    return Answer(
        np.frombuffer(reply.model, np.float32).reshape(reply.shape),
        np.frombuffer(reply.robot, np.float32).reshape(reply.shape),
    )


def _picture(image: NDArray[np.uint8], images: Images) -> Picture:
    if images == "jpeg":
        data: Any = simplejpeg.encode_jpeg(
            image, quality=QUALITY, colorspace="RGB", colorsubsampling="420"
        )
        return Picture(image.shape, is_jpeg=True, data=data)
    if images == "resized":
        image = cv2.resize(image, (RESIZED, RESIZED), interpolation=cv2.INTER_AREA)
    return Picture(image.shape, is_jpeg=False, data=image.data)


def _pixels(picture: Picture) -> NDArray[np.uint8]:
    if picture.is_jpeg:
        return simplejpeg.decode_jpeg(picture.data, colorspace="RGB")
    return np.frombuffer(picture.data, np.uint8).reshape(picture.shape)
