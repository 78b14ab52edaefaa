"""contract: what a checkpoint's columns mean, the source of each, and a manifest to serve it."""

from collections.abc import Callable
from typing import Any

import yaml

from lefleet.cli.checkpoints import choose_checkpoint
from lefleet.cli.commands import ContractCommand
from lefleet.cli.display import console
from lefleet.cli.network import network_errors
from lefleet.cli.output import print_json
from lefleet.policy.checkpoint import features_of, find_files, read_config, rename_map_of
from lefleet.policy.contract import ContractSource, FoundContract, find_contract, sources_of
from lefleet.policy.load import discover
from lefleet.policy.settings import ModelSettings

_UNKNOWN = "unknown"


@network_errors()
def show_contract(command: ContractCommand) -> int:
    """Read only the checkpoint's small files; its weights are not loaded."""
    checkpoint = choose_checkpoint(command.checkpoint, command.workdir, "checkpoint").location
    model = ModelSettings(repo_or_path=checkpoint, discover_packages=command.discover_packages)
    discover(model.discover_packages)
    files = find_files(model)
    config = read_config(files, model)
    rename_map = rename_map_of(files)
    # With trust_order, unnamed columns are no error, so that the known ones can be shown.
    found = find_contract(
        files.folder,
        config,
        features_of(files, config),
        None,
        trust_order=True,
        rename_map=rename_map,
    )
    origins = _origins(found, sources_of(files.folder, config, None, rename_map))
    manifest = _manifest(model, found, origins)
    if command.json:
        facts = {"digest": files.digest(), "contract": found.contract}
        print_json({**facts, "sources": origins, "manifest": manifest})
    else:
        _show(files.digest(), found, origins, manifest)
    return 0


def _origins(found: FoundContract, sources: list[ContractSource]) -> dict[str, str]:
    """For each part of the contract, the source that states it."""
    contract = found.contract
    parts: dict[str, Callable[[ContractSource], Any]] = {
        "action_names": lambda known: known.action_names,
        **{f"vectors.{key}": _of("vectors", key) for key in contract.vectors},
        **{f"cameras.{key}": _of("cameras", key) for key in contract.cameras},
        "fps": lambda known: known.fps,
        "robot_type": lambda known: known.robot_type,
    }
    origins = {
        part: next((known.source for known in sources if says(known)), _UNKNOWN)
        for part, says in parts.items()
    }
    # Every policy's config states the shapes of images, but not the names of columns.
    return {
        part: "config.json" if part.startswith("cameras.") and origin == _UNKNOWN else origin
        for part, origin in origins.items()
    }


def _of(group: str, key: str) -> Callable[[ContractSource], Any]:
    return lambda known: getattr(known, group).get(key)


def _manifest(
    model: ModelSettings, found: FoundContract, origins: dict[str, str]
) -> dict[str, Any]:
    """A manifest that serves this checkpoint; unknown parts are blanks to fill in."""
    contract = found.contract
    missing: dict[str, Any] = {}
    if origins["action_names"] == _UNKNOWN:
        missing["action_names"] = _blanks(contract.action_names)
    for key, names in contract.vectors.items():
        if origins[f"vectors.{key}"] == _UNKNOWN:
            missing.setdefault("vectors", {})[key] = _blanks(names)
    if origins["fps"] == _UNKNOWN:
        missing["fps"] = None
    named: dict[str, Any] = {"repo_or_path": model.repo_or_path}
    if model.discover_packages:
        named["discover_packages"] = list(model.discover_packages)
    return {"model": named} | ({"contract": missing} if missing else {})


def _blanks(names: tuple[str, ...]) -> list[str]:
    return [f"name_of_column_{name}" for name in names]


def _show(
    digest: str, found: FoundContract, origins: dict[str, str], manifest: dict[str, Any]
) -> None:
    out = console()
    contract = found.contract
    values = {
        "action_names": ", ".join(contract.action_names),
        **{f"vectors.{key}": ", ".join(names) for key, names in contract.vectors.items()},
        **{
            f"cameras.{key}": " x ".join(map(str, shape)) for key, shape in contract.cameras.items()
        },
        "fps": f"{contract.fps:g}",
        "robot_type": contract.robot_type,
    }
    out.print(f"{contract.policy_type}, digest {digest[:12]}", style="bold")
    for part, origin in origins.items():
        is_known = origin != _UNKNOWN
        value = values[part] if is_known else "unknown"
        out.print(f"{part}: {value}")
        if is_known:
            out.print(f"    from {origin}", style="dim")
    out.print()
    if "contract" in manifest:
        out.print("# Replace the placeholders, in the order of the training data.")
    out.print("# lefleet serve --manifest FILE", style="dim")
    out.print(yaml.safe_dump(manifest, sort_keys=False, allow_unicode=True).rstrip())
