"""The policy as LeRobot calls it: chunks from a server, one action at a time."""

import threading
from collections import deque
from pathlib import Path
from typing import Any, Self, cast

import torch
from lerobot.configs import PreTrainedConfig
from lerobot.policies import PreTrainedPolicy
from torch import Tensor

from lefleet_client.remote import RemotePolicy
from lefleet_client.wire import CodecChoice
from lerobot_policy_lefleet.configuration_lefleet import NOT_TRAINED, LefleetConfig
from lerobot_policy_lefleet.processor_lefleet import make_lefleet_pre_post_processors
from lerobot_policy_lefleet.rows import RowFrame, WrongFeatures, first_task, frames_of, tasks_of


class LefleetPolicy(PreTrainedPolicy):
    """Has no weights. Rows of a batch are asked for one after another, over one session.

    A request holds everything that the chunk of a shared policy depends on, so rows do not affect
    each other. A policy that is served to one robot at a time may remember its last request, so
    more than one row is refused there. The connection is opened by the first action and is no part
    of a copy. RemotePolicy closes the session of a policy that is garbage, or still open when the
    program ends. Between two resets one thread asks for actions.
    """

    config_class = LefleetConfig
    name = "lefleet"

    def __init__(self, config: LefleetConfig, **_: Any) -> None:
        super().__init__(config)
        self._remote: RemotePolicy | None = None
        self._actions: deque[Tensor] = deque()
        self._past: list[tuple[RowFrame, ...]] = []
        self._thread: int | None = None

    @classmethod
    def from_pretrained(
        cls,
        pretrained_name_or_path: str | Path,
        *,
        config: LefleetConfig | None = None,
        **options: Any,
    ) -> Self:
        """A folder holds no weights, only how to reach the server."""
        if config is None:
            loaded = PreTrainedConfig.from_pretrained(pretrained_name_or_path, **options)
            config = cast(LefleetConfig, loaded)
        policy = cls(config)
        policy.eval()
        return policy

    def _save_pretrained(self, save_directory: Path, state_dict: Any = None) -> None:  # noqa: ARG002
        """All that `--policy.path` needs."""
        self.config.save_pretrained(save_directory)
        for pipeline in make_lefleet_pre_post_processors(self.config):
            pipeline.save_pretrained(save_directory)

    def reset(self) -> None:
        """A new episode begins, in every row."""
        self._actions.clear()
        self._past = []
        self._thread = threading.get_ident()
        if self._remote is not None:
            self._remote.reset()

    def select_action(self, batch: dict[str, Any], **_: Any) -> Tensor:
        """The next action of each row: rows x action."""
        here = threading.get_ident()
        self._thread = self._thread or here
        if self._thread != here:
            raise RuntimeError(
                "another thread has begun an episode with this policy, and the two would mix their "
                "actions; use --env.max_parallel_tasks=1"
            )
        served = self._connected(batch).ack.capabilities
        if not self._actions:
            chunk = self.predict_action_chunk(batch)[:, : served.n_action_steps]
            self._actions.extend(chunk.transpose(0, 1))
        if served.n_obs_steps > 1:
            self._past = [*self._past, self._frames(batch)][1 - served.n_obs_steps :]
        return self._actions.popleft()

    def predict_action_chunk(self, batch: dict[str, Any], **_: Any) -> Tensor:
        """The whole chunk of each row: rows x step x action.

        Earlier observations are those that `select_action` was given in this episode.
        """
        remote = self._connected(batch)
        frames = self._frames(batch)
        if any(len(earlier) != len(frames) for earlier in self._past):
            raise WrongFeatures(
                f"the batch has {len(frames)} rows, and had {len(self._past[-1])} in this episode"
            )
        tasks = tasks_of(batch, len(frames))
        seeds = draw_seeds(len(frames))
        chunks = [
            remote.infer(
                frame,
                task=tasks[row],
                history=[earlier[row] for earlier in self._past],
                noise_seed=seeds[row],
            ).robot
            for row, frame in enumerate(frames)
        ]
        return torch.stack([torch.tensor(chunk) for chunk in chunks]).to(self.config.device)

    def close(self) -> None:
        """End the session; the next action opens a new one."""
        if self._remote is not None:
            remote, self._remote = self._remote, None
            remote.close()

    def get_optim_params(self) -> dict[str, Any]:
        raise NotImplementedError(NOT_TRAINED)

    def forward(self, batch: dict[str, Any]) -> tuple[Tensor, dict[str, Any] | None]:
        raise NotImplementedError(NOT_TRAINED)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_remote": None, "_thread": None}

    def _frames(self, batch: dict[str, Any]) -> tuple[RowFrame, ...]:
        served = self._connected(batch).ack.capabilities
        frames = frames_of(batch, served.contract, self.config.rename_map)
        if len(frames) > 1 and served.serving_mode == "exclusive":
            raise WrongFeatures(
                f"the batch has {len(frames)} rows, and the server's policy, which is served to "
                "one robot at a time, may mix them; use --eval.batch_size=1"
            )
        return frames

    def _connected(self, batch: dict[str, Any]) -> RemotePolicy:
        if self._remote is None:
            self._remote = _open(self.config, task=first_task(batch))
        return self._remote


def _open(config: LefleetConfig, task: str) -> RemotePolicy:
    remote = RemotePolicy(
        config.endpoints,
        config.service,
        model=config.model,
        revision=config.revision,
        client_id=config.client_id,
        task=task,
        pin_digest=config.pin_digest,
        image_codec=cast(CodecChoice, config.image_codec),
        jpeg_quality=config.jpeg_quality,
        timeout_s=config.timeout_s,
        tls=config.certificates,
        insecure=config.insecure,
    )
    here, there = config.action_feature, remote.ack.capabilities.contract.action_names
    if here is not None and here.shape != (len(there),):
        remote.close()
        raise WrongFeatures(
            f"action: {here.shape} is executed here, the server's policy gives {len(there)}: "
            f"{', '.join(there)}"
        )
    return remote


def draw_seeds(rows: int) -> list[int]:
    """From the generator that LeRobot's `--seed` sets, so that an evaluation can be repeated."""
    drawn: list[int] = torch.randint(0, 2**63 - 1, (rows,)).tolist()
    return drawn
