"""The policy that a manifest names, loaded; takes seconds, so it comes after all checks."""

from typing import TYPE_CHECKING

from lefleet.server.manifest import Manifest

if TYPE_CHECKING:
    from lefleet.policy import ServedPolicy


def load_served(manifest: Manifest) -> "ServedPolicy":
    """Loaded and warmed up."""
    from lefleet.policy import load_policy

    return load_policy(
        manifest.model,
        contract=manifest.contract,
        trust_order=manifest.trust_order,
        serving_mode=manifest.serving_mode,
        rtc=manifest.rtc,
        warmup_inferences=manifest.warmup_inferences,
    )
