"""What a model and a service are called in keys when nobody has named them."""

import re
from pathlib import Path

from lefleet_client.wire import BadKey, slug

_LONGEST = 80
_LAYOUT = re.compile(r"pretrained_model|checkpoints|last|train|cycle_\d+|\d+")
"""Folders that are called the same in every training."""


def model_label(repo_or_path: str) -> str:
    """A hub id as it is; of a folder the last name that says something.

    >>> model_label("runs/demo/train/checkpoints/000600/pretrained_model")
    'demo'
    """
    folder = Path(repo_or_path).expanduser()
    if not folder.is_dir() and not folder.is_absolute():
        return repo_or_path
    telling = [part for part in folder.resolve().parts[1:] if not _LAYOUT.fullmatch(part)]
    return telling[-1] if telling else folder.name


def service_label(default_task: str, model: str) -> str:
    """The task as a key can hold it, or the model where the task has no plain letter."""
    try:
        return slug(default_task[:_LONGEST], "service_name").strip("-.") or model
    except BadKey:
        return model
