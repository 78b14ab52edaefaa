"""replay: captured requests computed again, and compared."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

import msgspec

from lefleet.cli.loading import load_served
from lefleet.cli.output import print_json
from lefleet.cli.printable import printable
from lefleet.cli.serving import Replay
from lefleet.errors import BadInput
from lefleet.server.capture import CapturedModel, read_captures
from lefleet.server.manifest import load_manifest, manifest_of

_SHOWN = 20


def replay_command(command: Replay, overrides: Sequence[str]) -> int:
    """0 when every answer came out as before, 1 when not."""
    folder = command.folder.expanduser()
    captured = msgspec.to_builtins(_first(folder))
    manifest = (
        manifest_of(captured, overrides, str(folder))
        if command.manifest is None
        else load_manifest(command.manifest, overrides)
    )
    policy = load_served(manifest)

    from lefleet.server.replay import replay

    report = replay(folder, policy)
    if command.json:
        print_json({"is_same": report.is_same, **asdict(report)})
        return 0 if report.is_same else 1
    for note in report.notes:
        print(note, file=sys.stderr)
    others = [one for one in report.requests if one.result not in ("equal", "close")]
    for one in others[:_SHOWN]:
        said = one.reason or f"differs by up to {one.max_difference:.3g}"
        request = f"{one.client_id} episode {one.episode_id} seq {one.seq_id}"
        print(f"{one.name}  {printable(f'{request}: {said}')}")
    if len(others) > _SHOWN:
        print(f"... and {len(others) - _SHOWN} more; see --json")
    counts = Counter(one.result for one in report.requests)
    print(", ".join(f"{count} {result}" for result, count in sorted(counts.items())))
    return 0 if report.is_same else 1


def _first(folder: Path) -> CapturedModel:
    for _, capture in read_captures(folder):
        return capture.policy
    raise BadInput(f"{folder}: nothing is captured there.", "Name the capture.dir of a server.")
