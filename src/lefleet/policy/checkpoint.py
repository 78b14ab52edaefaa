"""A checkpoint's files to a policy with its processors, with LeRobot's own factory."""

import hashlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import torch
from lerobot.configs import FeatureType, PreTrainedConfig
from lerobot.policies.factory import get_policy_class, make_pre_post_processors
from lerobot.utils.constants import POLICY_PREPROCESSOR_DEFAULT_NAME

from lefleet.devices import ready_device
from lefleet.devices.probe import examine
from lefleet.errors import BadInput
from lefleet.policy.settings import ModelSettings
from lefleet.records.checkpoint import leave_out_download
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.references import find_checkpoint, made_by

_FIELD = "model.repo_or_path"
_ADAPTER_CONFIG = "adapter_config.json"
_RENAME_STEP = "rename_observations_processor"
_COMPILED_BY_THEMSELVES = ("pi0", "pi05")


@dataclass(frozen=True)
class CheckpointFiles:
    """Where everything lies: `folder` has config and processors, `base` the weights."""

    folder: Path
    base: Path
    adapter: Path | None = None

    def digest(self) -> str:
        """Of what the files hold now; only those that have changed are read again."""
        folders = dict.fromkeys((self.folder, self.base, self.adapter or self.folder))
        digests = [checkpoint_digest(folder) for folder in folders]
        joined = hashlib.sha256("\0".join(digests).encode()).hexdigest()
        return digests[0] if len(digests) == 1 else joined


def find_files(model: ModelSettings) -> CheckpointFiles:
    """Resolve folders and hub ids; an adapter in the checkpoint's own folder names its base."""
    folder = Path(find_checkpoint(model.repo_or_path, _FIELD, model.revision).path)
    if model.peft:
        adapter = Path(model.peft).resolve()
        if not (adapter / _ADAPTER_CONFIG).is_file():
            raise BadInput(f"model.peft: {adapter} holds no {_ADAPTER_CONFIG}.")
        return CheckpointFiles(folder, folder, adapter)
    if not (folder / _ADAPTER_CONFIG).is_file():
        return CheckpointFiles(folder, folder)
    settings = msgspec.json.decode((folder / _ADAPTER_CONFIG).read_bytes())
    name = settings.get("base_model_name_or_path") or ""
    revision = settings.get("revision") or "main"
    base = find_checkpoint(name, f"{_FIELD}: base of the adapter", revision)
    return CheckpointFiles(folder, Path(base.path), folder)


def read_config(files: CheckpointFiles, model: ModelSettings) -> Any:
    """The policy's own settings, on the wanted device."""
    with _loading("config.json"):
        config = PreTrainedConfig.from_pretrained(str(files.folder))
    config.pretrained_path = files.folder
    config.device = ready_device(model.device, "model.device", examine)
    if hasattr(config, "compile_model"):
        config.compile_model = model.compile
    leave_out_download(config)
    return config


@dataclass(frozen=True)
class PolicyFeatures:
    """Sizes of vectors, and of images as height, width and channels, by feature key."""

    vector_sizes: dict[str, int]
    cameras: dict[str, tuple[int, int, int]]
    action_size: int


def features_of(files: CheckpointFiles, config: Any) -> PolicyFeatures:
    """The inputs that a robot sends; cameras that only fill a policy's empty places are none, nor
    is what the checkpoint's preprocessor makes."""
    made = made_by(files.folder)
    inputs = {k: feature for k, feature in (config.input_features or {}).items() if k not in made}
    action = config.action_feature
    if action is None:
        raise BadInput("model: its config.json has no action among output_features.")
    return PolicyFeatures(
        vector_sizes={
            key: int(feature.shape[0])
            for key, feature in inputs.items()
            if feature.type in (FeatureType.STATE, FeatureType.ENV)
        },
        cameras={
            key: height_width_channels(feature.shape)
            for key, feature in inputs.items()
            if feature.type is FeatureType.VISUAL and "empty_camera" not in key
        },
        action_size=int(action.shape[0]),
    )


def height_width_channels(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """An image's shape as robots have it; LeRobot's configs have channels first.

    >>> height_width_channels((3, 480, 640))
    (480, 640, 3)
    """
    first, second, third = shape
    return (second, third, first) if first < min(second, third) else (first, second, third)


def load_weights(files: CheckpointFiles, config: Any) -> Any:
    """The policy with its adapter, ready for inference on its device."""
    with _loading("weights"):
        policy = get_policy_class(config.type).from_pretrained(str(files.base), config=config)
        if files.adapter is not None:
            policy = _adapted(policy, files.adapter)
        return policy.to(config.device).eval()


def _adapted(policy: Any, adapter: Path) -> Any:
    from lerobot.utils.import_utils import require_package

    require_package("peft", extra="peft")
    from peft import PeftConfig, PeftModel

    settings = PeftConfig.from_pretrained(str(adapter))
    return PeftModel.from_pretrained(policy, str(adapter), config=settings)


def compile_chunks(policy: Any) -> None:
    """As LeRobot's rollout does; some policies compile themselves, see `compile_model`."""
    if policy.config.type not in _COMPILED_BY_THEMSELVES:
        policy.predict_action_chunk = torch.compile(policy.predict_action_chunk)


def rename_map_of(files: CheckpointFiles) -> dict[str, str]:
    """Keys of the training's data to the policy's own, as the training was told."""
    for step in _steps(files):
        if step.get("registry_name") == _RENAME_STEP:
            return dict(step.get("config", {}).get("rename_map") or {})
    return {}


def load_processors(files: CheckpointFiles, config: Any) -> tuple[Any, Any]:
    """Pre- and postprocessor as they were saved, on the policy's device.

    Robots send the policy's own keys, so nothing is left to rename.
    """
    names = {step.get("registry_name") for step in _steps(files)}
    wanted = {"device_processor": {"device": config.device}, _RENAME_STEP: {"rename_map": {}}}
    with _loading("processors"):
        return make_pre_post_processors(
            policy_cfg=config,
            pretrained_path=str(files.folder),
            preprocessor_overrides={key: value for key, value in wanted.items() if key in names},
        )


def _steps(files: CheckpointFiles) -> list[dict[str, Any]]:
    file = files.folder / f"{POLICY_PREPROCESSOR_DEFAULT_NAME}.json"
    if not file.is_file():
        raise BadInput(
            f"{_FIELD}: {files.folder} has no {file.name}.",
            "Checkpoints of before LeRobot 0.4 need lerobot's migrate_policy_normalization.",
        )
    steps: list[dict[str, Any]] = msgspec.json.decode(file.read_bytes()).get("steps", [])
    return steps


@contextmanager
def _loading(what: str) -> Iterator[None]:
    """LeRobot's refusals become ours; what it prints does not mix with a command's output."""
    try:
        with redirect_stdout(sys.stderr):
            yield
    except Exception as error:
        raise BadInput(
            f"{_FIELD}: LeRobot cannot load its {what}: {type(error).__name__}: {_sentence(error)}"
        ) from error


def _sentence(error: Exception) -> str:
    """What others say, on one line and with one full stop."""
    return f"{' '.join(str(error).split()).removesuffix('.')}."
