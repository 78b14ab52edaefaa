"""One robot's own pre- and postprocessors: a request to a policy's input, its output to a chunk."""

import copy
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from lerobot.policies.rtc import reanchor_relative_rtc_prefix
from lerobot.policies.utils import prepare_observation_for_inference
from lerobot.processor import (
    NormalizerProcessorStep,
    RelativeActionsProcessorStep,
    TokenizerProcessorStep,
    UnnormalizerProcessorStep,
)
from numpy.typing import NDArray

from lefleet.policy.families import Feed
from lefleet.policy.request import BadRequest, Chunk, PolicyFrame, PolicyRequest, RequestRules

PolicyInput = dict[str, Any]


@dataclass(frozen=True)
class Prepared:
    """A request as the policy takes it; for one prediction, because policies write into batches.

    The present is the last of `batches`. `prefix` is what is left of the last chunk, in the
    coordinates of this request.
    """

    batches: tuple[PolicyInput, ...]
    seed: int
    inference_delay_steps: int
    prefix: torch.Tensor | None


class Pipeline:
    """Processors of one robot; they remember its state between `prepare` and `finish`.

    Any thread may call, one at a time; no other request comes between `prepare` and `finish`.
    """

    def __init__(
        self, before: Any, after: Any, rules: RequestRules, feed: Feed, device: str
    ) -> None:
        self._before = before
        self._after = after
        self._rules = rules
        self._feed = feed
        self._device = torch.device(device)
        self._relative = relative_step(before)
        self._normalizer = _first(before, NormalizerProcessorStep)

    def prepare(self, request: PolicyRequest) -> Prepared:
        """The policy's input; BadRequest, with the field, where there is none."""
        self._rules.require(request)
        with torch.no_grad():
            batches = tuple(
                self._preprocess(frame, request.task, request.robot_type)
                for frame in request.frames
            )
            if self._feed == "stacked":
                batches = (_stacked(batches, self._rules.n_obs_steps),)
            prefix = self._prefix(request)
        return Prepared(batches, request.seed, request.inference_delay_steps, prefix)

    def finish(self, actions: torch.Tensor) -> Chunk:
        """The policy's output as actions of the robot."""
        with torch.no_grad():
            model = actions.squeeze(0).clone()
            robot = self._after(actions).squeeze(0)
        # Some policies pad actions to a fixed width; what is beyond the robot's is zero.
        return Chunk(model=_array(model[:, : robot.shape[1]]), robot=_array(robot))

    def reset(self) -> None:
        """A new episode begins."""
        self._before.reset()
        self._after.reset()

    def _preprocess(self, frame: PolicyFrame, task: str, robot_type: str) -> PolicyInput:
        arrays = {
            key: _lent(image) if key in self._rules.cameras else image.copy()
            for key, image in frame.items()
        }
        batch = prepare_observation_for_inference(arrays, self._device, task, robot_type)
        batch["task"] = [task]
        return self._before(batch)

    def _prefix(self, request: PolicyRequest) -> torch.Tensor | None:
        if request.prefix_model is None and request.prefix_robot is None:
            return None
        if self._relative is None:
            if request.prefix_model is None:
                raise BadRequest("prefix_model: missing, and prefix_robot alone is of no use")
            return torch.from_numpy(request.prefix_model.copy()).to(self._device)
        if request.prefix_robot is None:
            raise BadRequest("prefix_robot: missing, and this policy's actions are relative")
        return reanchor_relative_rtc_prefix(
            prev_actions_absolute=torch.from_numpy(request.prefix_robot.copy()),
            current_state=self._relative.get_cached_state(),
            relative_step=self._relative,
            normalizer_step=self._normalizer,
            policy_device=self._device,
        )


@dataclass(frozen=True)
class Processors:
    """The checkpoint's pre- and postprocessor, never run: what every pipeline is a copy of."""

    before: Any
    after: Any
    feed: Feed
    device: str

    def pipeline(self, rules: RequestRules) -> Pipeline:
        """A pipeline with steps of its own; what no step writes to is shared, not copied.

        Both halves are copied at once: a step that makes actions absolute refers to the one in
        `before` that knows the robot's state.
        """
        shared = {id(item): item for item in _read_only((*self.before.steps, *self.after.steps))}
        before, after = copy.deepcopy((self.before, self.after), shared)
        return Pipeline(before, after, rules, self.feed, self.device)


def _read_only(steps: tuple[Any, ...]) -> Iterator[Any]:
    """Statistics and tokenizers: large, and only read once a checkpoint is loaded.

    Steps themselves are never shared, because LeRobot's keep the transition that they work on.
    A fast tokenizer may be called by several threads as long as padding and truncation stay as they
    are, and every copy of a step asks for the same ones.
    """
    for step in steps:
        if isinstance(step, NormalizerProcessorStep | UnnormalizerProcessorStep):
            yield step.stats
        if isinstance(step, TokenizerProcessorStep):
            yield from (step.tokenizer, step.input_tokenizer)
        yield from (value for value in vars(step).values() if _is_of_transformers(value))


def _is_of_transformers(value: Any) -> bool:
    """Whether this is one of the tokenizers or processors of the library `transformers`."""
    return any(base.__module__.partition(".")[0] == "transformers" for base in type(value).__mro__)


def relative_step(before: Any) -> Any:
    """The step that makes actions relative to the robot's state, or None."""
    step = _first(before, RelativeActionsProcessorStep)
    return step if step is not None and step.enabled else None


def _first(pipeline: Any, kind: type) -> Any:
    return next((step for step in pipeline.steps if isinstance(step, kind)), None)


def _stacked(batches: tuple[PolicyInput, ...], steps: int) -> PolicyInput:
    """One batch with a dimension for time; the oldest is repeated as at an episode's start."""
    whole = (batches[0],) * (steps - len(batches)) + batches
    return {
        key: torch.stack([batch[key] for batch in whole], dim=1)
        if _is_observed(key, value)
        else value
        for key, value in whole[-1].items()
    }


def _is_observed(key: str, value: Any) -> bool:
    return key.startswith("observation.") and isinstance(value, torch.Tensor)


class _Lender:
    """An array's memory, offered as writable: torch warns about memory that is not.

    Only for memory that is copied before anything could write to it.
    """

    def __init__(self, array: NDArray[Any]) -> None:
        self._array = array
        address, _ = array.__array_interface__["data"]
        self.__array_interface__ = {**array.__array_interface__, "data": (address, False)}


def _lent(image: NDArray[Any]) -> NDArray[Any]:
    """The image without a copy, where it lies in memory as torch needs it."""
    plain = np.ascontiguousarray(image)
    return plain if plain.flags.writeable else np.asarray(_Lender(plain))


def _array(tensor: torch.Tensor) -> NDArray[Any]:
    return tensor.detach().to("cpu", torch.float32).contiguous().numpy()
