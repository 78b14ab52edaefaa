"""How a robot asks our server."""

from benchmarks.serving.scene import IMAGE_KEY, STATE_KEY, TASK, Answer, Scene
from lefleet_client.remote.policy import RemotePolicy


class LefleetClient:
    """A RemotePolicy as it comes, codec probe and all."""

    def __init__(self, address: str) -> None:
        self._policy = RemotePolicy(f"tcp/{address}", "stub", task=TASK, insecure=True)

    def infer(self, scene: Scene) -> Answer:
        images = {IMAGE_KEY.format(camera): image for camera, image in scene.images.items()}
        chunk = self._policy.infer({STATE_KEY: scene.state, **images})
        return Answer(chunk.model, chunk.robot)

    @property
    def codec(self) -> str:
        return self._policy.image_codec

    def close(self) -> None:
        self._policy.close()
