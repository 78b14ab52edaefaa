"""A checkpoint's name to a policy that is warmed up and may be asked."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec

from lefleet.errors import BadInput
from lefleet.policy.checkpoint import (
    compile_chunks,
    features_of,
    find_files,
    load_processors,
    load_weights,
    read_config,
    rename_map_of,
)
from lefleet.policy.contract import find_contract
from lefleet.policy.families import Family, family_of
from lefleet.policy.pipeline import Processors, relative_step
from lefleet.policy.request import RequestRules
from lefleet.policy.served import PolicyRunner, ServedPolicy
from lefleet.policy.settings import ContractOverride, ModelSettings, RtcSettings, ServingMode
from lefleet.policy.warmup import first_chunk, impurity, warm_up
from lefleet.records import EnvelopeRecord, decode
from lefleet.records.checkpoint import are_numbers
from lefleet.records.profile import ENVELOPE_FILE
from lefleet_client.wire import Capabilities


def load_policy(
    model: ModelSettings,
    *,
    contract: ContractOverride | None = None,
    trust_order: bool = False,
    serving_mode: ServingMode = "auto",
    rtc: RtcSettings | None = None,
    warmup_inferences: int = 1,
) -> ServedPolicy:
    """Load, check and warm up a policy; BadInput with the reason where it cannot be served."""
    discover(model.discover_packages)
    files = find_files(model)
    digest = files.digest()
    config = read_config(files, model)
    family = _servable(config, serving_mode)
    features = features_of(files, config)
    found = find_contract(
        files.folder,
        config,
        features,
        contract,
        trust_order=trust_order,
        rename_map=rename_map_of(files),
    )
    policy = load_weights(files, config)
    rtc_horizon = _enable_rtc(policy, rtc or RtcSettings())
    if model.compile:
        compile_chunks(policy)
    before, after = load_processors(files, config)
    if files.digest() != digest:
        raise BadInput(
            f"model.repo_or_path: files in {files.folder} changed while they were loaded.",
            "Start again when they are complete.",
        )
    _name_actions(before, found.contract.action_names)

    processors = Processors(before, after, family.feed, config.device)
    runner = PolicyRunner(policy, family.feed, config.device, model.dtype, rtc=rtc_horizon > 0)
    rules = RequestRules(
        vector_sizes=features.vector_sizes,
        cameras=frozenset(found.contract.cameras),
        action_size=features.action_size,
        n_obs_steps=config.n_obs_steps if family.feed in ("stacked", "queues") else 1,
    )
    envelope_ms, distrust = _envelope(files.folder, digest)
    chunk_size = len(first_chunk(runner, processors, rules, found.contract).robot)
    capabilities = Capabilities(
        model=model.repo_or_path,
        revision=_revision(model, digest),
        digest=digest,
        contract=found.contract,
        chunk_size=chunk_size,
        n_action_steps=min(getattr(config, "n_action_steps", chunk_size), chunk_size),
        n_obs_steps=rules.n_obs_steps,
        supports_rtc=rtc_horizon > 0,
        rtc_horizon=rtc_horizon,
        serving_mode="exclusive",
        envelope_ms=envelope_ms,
    )
    served = ServedPolicy(
        capabilities=capabilities,
        mode_reason="the manifest says so" if family.sharing == "shared" else family.reason,
        contract_source=found.source,
        warnings=(*found.warnings, *(one for one in (family.caution, distrust) if one)),
        processors=processors,
        rules=replace(rules, chunk_size=chunk_size, takes_prefix=rtc_horizon > 0),
        runner=runner,
    )
    warm_up(served, warmup_inferences)
    if family.sharing == "shared" and serving_mode != "exclusive":
        served = _shared(served, family, serving_mode)
    if served.is_exclusive:
        served.reset()
    return served


def _revision(model: ModelSettings, digest: str) -> str:
    """A folder has no revision of its own, so its content names it: what differs is no replica."""
    is_folder = Path(model.repo_or_path).expanduser().is_dir()
    return digest[:12] if is_folder else model.revision


def _envelope(folder: Path, digest: str) -> tuple[float, str]:
    """The round trip up to which a profile found the policy good, and why one is not believed."""
    file = folder / ENVELOPE_FILE
    if not file.is_file():
        return 0.0, ""
    try:
        written: EnvelopeRecord = decode(file.read_bytes(), EnvelopeRecord, ENVELOPE_FILE)
    except (BadInput, OSError) as error:
        return 0.0, f"{ENVELOPE_FILE} cannot be used, run lefleet profile again: {error}"
    if written.digest != digest:
        return 0.0, f"{ENVELOPE_FILE} is that of another checkpoint, {written.digest[:12]}"
    return written.envelope_ms, ""


def discover(packages: tuple[str, ...]) -> None:
    """Import packages that register policies: installed ones by their names, and those given."""
    from lerobot.configs.parser import PluginLoadError, load_plugin
    from lerobot.utils.import_utils import register_third_party_plugins

    register_third_party_plugins()
    for package in packages:
        try:
            load_plugin(package)
        except PluginLoadError as error:
            raise BadInput(f"model.discover_packages: {error}.") from error


def _servable(config: Any, serving_mode: ServingMode) -> Family:
    family = family_of(config)
    if family.sharing == "refused":
        raise BadInput(f"model: {config.type} cannot be served: {family.reason}.")
    if family.sharing == "exclusive" and serving_mode == "shared":
        raise BadInput(
            f"serving_mode: {config.type} cannot be shared: {family.reason}.",
            "Leave serving_mode at auto.",
        )
    return family


def _shared(served: ServedPolicy, family: Family, serving_mode: ServingMode) -> ServedPolicy:
    """Shared if that is proven; where the manifest does not insist, exclusive otherwise."""
    if found := impurity(served):
        if serving_mode == "shared":
            raise BadInput(
                f"serving_mode: this {served.contract.policy_type} cannot be shared: {found}.",
                "Leave serving_mode at auto.",
            )
        return replace(served, mode_reason=found)
    shared = msgspec.structs.replace(served.capabilities, serving_mode="shared")
    return replace(served, capabilities=shared, mode_reason=family.reason)


def _enable_rtc(policy: Any, settings: RtcSettings) -> int:
    """Prepare real-time chunking as LeRobot's rollout does; its horizon, 0 if there is none."""
    # Asked first, because importing LeRobot's engine for its stricter answer takes seconds.
    if not settings.enabled or not policy.supports_rtc():
        return 0
    from lerobot.configs import RTCAttentionSchedule
    from lerobot.policies.rtc import RTCConfig
    from lerobot.rollout.inference.rtc import supports_rtc_inference

    if not supports_rtc_inference(policy):
        return 0
    policy.config.rtc_config = RTCConfig(
        execution_horizon=settings.execution_horizon,
        max_guidance_weight=settings.max_guidance_weight,
        prefix_attention_schedule=RTCAttentionSchedule(settings.prefix_attention_schedule),
    )
    if hasattr(policy, "init_rtc_processor"):
        policy.init_rtc_processor()
    return settings.execution_horizon


def _name_actions(before: Any, names: tuple[str, ...]) -> None:
    """Joints can be left out of relative actions by name, and not every checkpoint has names."""
    step = relative_step(before)
    if step is None or step.action_names is not None:
        return
    if step.exclude_joints and are_numbers(names):
        raise BadInput(
            f"contract.action_names: actions are relative except those of "
            f"{', '.join(step.exclude_joints)}, and without names it is unknown which these are.",
            "Say it in `contract` of the manifest; trust_order is not sufficient here.",
        )
    step.action_names = list(names)
