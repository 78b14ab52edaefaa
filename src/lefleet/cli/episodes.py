"""label and lineage: how a recorded episode ended, and where its actions came from."""

from collections import Counter
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal

import msgspec
from tyro.conf import Positional, arg

from lefleet.actions import labels
from lefleet.actions.people import user_name
from lefleet.cli.display import console
from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.errors import BadInput
from lefleet.ledger import Ledger, read_ledger
from lefleet.ledger.address import has_ledger
from lefleet.recording import (
    EpisodeLabel,
    FrameProvenance,
    finished_episodes,
    outcomes,
    read_provenance,
)

_SHORTEST = 6
"""Characters of a digest that are enough to name it."""
_WORDS = {True: "success", False: "failure", None: "unknown"}

type _Request = tuple[str, int]
"""Session and number: the same in provenance and in audit lines."""


@dataclass(frozen=True, kw_only=True)
class LabelCommand(WorkdirOptions):
    """Say how a recorded episode ended. A later label replaces an earlier one. It is kept beside
    the dataset, and in the ledger where there is one."""

    dataset: Annotated[Path, Positional, arg(metavar="DATASET")]
    """Folder of the dataset. It may still be recorded into."""
    episode: Annotated[int, Positional, arg(metavar="EPISODE")]
    """Number of the episode."""
    outcome: Annotated[
        Literal["success", "failure", "undo"],
        Positional,
        arg(metavar="success|failure|undo"),
    ]
    """undo takes back the last label of this episode; the one before it counts again."""
    note: str = ""
    """Kept with the label."""


@dataclass(frozen=True, kw_only=True)
class LineageCommand(WorkdirOptions):
    """Trace a motor command to its observation, checkpoint, training data and decision, as far as
    provenance, audit lines and the ledger know them."""

    subject: Annotated[str, Positional, arg(metavar="EPISODE|DIGEST")]
    """DATASET:NUMBER, an episode of a recorded dataset; or the digest of a checkpoint or of a
    dataset, or its beginning."""
    frame: int | None = None
    """One frame of the episode. Default: all of them, summed up."""
    audit: tuple[Path, ...] = ()
    """Audit files of servers, to look up the requests that the actions answered."""


EPISODE_COMMANDS: dict[str, type[OutputOptions]] = {
    "label": LabelCommand,
    "lineage": LineageCommand,
}


def label_episode(command: LabelCommand) -> int:
    workdir = absolute(command.workdir, "workdir")
    said = labels.label_episode(
        workdir if has_ledger(workdir) else None,
        absolute(command.dataset, "dataset"),
        command.episode,
        command.outcome,
        source="command",
        who=user_name(),
        note=command.note,
    )
    if command.json:
        print_json(said)
    else:
        console().print(f"episode {command.episode}: {_outcome_words(said.counts)}")
    return 0


def show_lineage(command: LineageCommand) -> int:
    with closing(read_ledger(absolute(command.workdir, "workdir"))) as ledger:
        dataset, colon, number = command.subject.rpartition(":")
        if colon and number.isdecimal():
            found = _of_episode(absolute(dataset, "dataset"), int(number), command, ledger)
        elif command.frame is not None or command.audit:
            raise BadInput("frame, audit: they belong to an episode.", "Name it as DATASET:NUMBER.")
        else:
            found = _of_digest(command.subject, ledger, command.workdir)
    if command.json:
        print_json(found)
    else:
        for line in _sentences(found):
            console().print(printable(line))
    return 0


def _of_episode(
    root: Path, episode: int, command: LineageCommand, ledger: Ledger
) -> dict[str, Any]:
    count = finished_episodes(root)
    if episode >= count:
        raise BadInput(f"{root} has no episode {episode}.", f"It has {count} episodes.")
    rows = read_provenance(root, episode)
    if not rows:
        raise BadInput(
            f"{root} has no provenance of episode {episode}.", "lefleet rollout records it."
        )
    if command.frame is not None:
        if not 0 <= command.frame < len(rows):
            raise BadInput(
                f"frame: episode {episode} has no frame {command.frame}.",
                f"It has {len(rows)} frames.",
            )
        rows = [rows[command.frame]]
    audited = None if not command.audit else _audit_lines(command.audit, {*_requests(rows)})
    digests = list(dict.fromkeys(row.digest for row in rows if row.digest))
    return {
        "dataset": str(root),
        "episode": episode,
        "outcome": outcomes(root).get(episode),
        "frames": len(rows),
        "fallback_frames": sum(row.is_fallback for row in rows),
        "frame": rows[0] if command.frame is not None else None,
        "sessions": _sessions(rows, audited),
        "checkpoints": [_of_checkpoint(one, ledger) for one in digests],
    }


def _requests(rows: list[FrameProvenance]) -> list[_Request]:
    """What was asked for, in the order of execution, each once."""
    asked = [(row.session_id, row.seq_id) for row in rows if row.seq_id is not None]
    return list(dict.fromkeys(asked))


def _sessions(
    rows: list[FrameProvenance], audited: dict[_Request, dict[str, Any]] | None
) -> list[dict[str, Any]]:
    """The frames by session, and what servers wrote down of their requests."""
    found = []
    for session_id in dict.fromkeys(row.session_id for row in rows if row.session_id):
        mine = [row for row in rows if row.session_id == session_id]
        requests = _requests(mine)
        ages = [row.age_s for row in mine if row.age_s is not None]
        session: dict[str, Any] = {
            "session_id": session_id,
            "server": mine[0].server,
            "digest": mine[0].digest,
            "frames": len(mine),
            "first_frame": mine[0].frame_index,
            "last_frame": mine[-1].frame_index,
            "seq_ids": [seq_id for _, seq_id in requests],
            "age_s": {"p50": median(ages), "max": max(ages)},
        }
        if audited is not None:
            session["audit"] = [audited[one] for one in requests if one in audited]
            session["not_audited"] = [seq for one, seq in requests if (one, seq) not in audited]
        found.append(session)
    return found


def _audit_lines(files: tuple[Path, ...], wanted: set[_Request]) -> dict[_Request, dict[str, Any]]:
    found = {}
    for file in files:
        try:
            lines = absolute(file, "audit").read_bytes().splitlines()
        except OSError as error:
            raise BadInput(f"audit: {file} cannot be read: {error.strerror}.") from error
        for line in lines:
            try:
                fields = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue  # Audit lines on stdout may stand among others.
            if isinstance(fields, dict) and fields.get("event") == "request":
                request = (fields["session_id"], fields["seq_id"])
                if request in wanted:
                    found[request] = fields
    return found


def _of_digest(beginning: str, ledger: Ledger, workdir: Path) -> dict[str, Any]:
    is_digest = len(beginning) >= _SHORTEST and set(beginning) <= set("0123456789abcdef")
    if not is_digest:
        raise BadInput(
            f"{printable(beginning)} is neither DATASET:NUMBER nor at least {_SHORTEST} characters "
            "of a digest.",
            "An episode is written datasets/door:0",
        )
    checkpoints, datasets = ledger.digests_beginning(beginning)
    known = sorted({*checkpoints, *datasets})
    if not known:
        raise BadInput(
            f"The ledger in {workdir} knows no checkpoint and no dataset {beginning}.",
            "Name the --workdir of its run.",
        )
    if len(known) > 1:
        raise BadInput(
            f"{beginning} is ambiguous: {', '.join(one[:16] for one in known)}.",
            "Give more characters.",
        )
    if checkpoints:
        return {"checkpoints": [_of_checkpoint(known[0], ledger)]}
    trained = ledger.checkpoints_of_dataset(known[0])
    return {
        "datasets": ledger.dataset_lineage(known[0]),
        "checkpoints": [_of_checkpoint(one, ledger) for one in trained],
    }


def _of_checkpoint(digest: str, ledger: Ledger) -> dict[str, Any]:
    """With the decision about it; only its digest where the ledger does not know it."""
    found = ledger.lineage(digest) or {"checkpoint": digest, "run": None}
    decisions = ledger.decisions(found["run"]) if found["run"] else []
    made = next((one for one in decisions if one.candidate == digest), None)
    return {**found, "decision": made and {"decision": made.decision, "why": made.why}}


def _sentences(found: dict[str, Any]) -> list[str]:
    lines = []
    if "episode" in found:
        lines += [f"episode {found['episode']} of {found['dataset']}"]
        lines += [f"  outcome      {_outcome_words(found['outcome'])}"]
        lines += [_frame_words(found["frame"]) if found["frame"] else _frames_words(found)]
        for session in found["sessions"]:
            lines += _session_words(session)
    lines += [_dataset_words(one) for one in found.get("datasets", ())]
    for checkpoint in found["checkpoints"]:
        lines += _checkpoint_words(checkpoint)
    return lines


def _outcome_words(row: EpisodeLabel | None) -> str:
    if row is None:
        return "no label"
    progress = "" if row.progress is None else f", progress {row.progress:.0%}"
    said = " ".join(word for word in (row.source, row.who) if word)
    note = f": {printable(row.note)}" if row.note else ""
    return f"{_WORDS[row.success]}{progress} ({said}, {row.at}){note}"


def _frames_words(found: dict[str, Any]) -> str:
    remote = sum(session["frames"] for session in found["sessions"])
    other = found["frames"] - remote - found["fallback_frames"]
    parts = [f"{remote} of a server", f"{found['fallback_frames']} fallback"]
    parts += [f"{other} of a person or a local policy"] if other else []
    return f"  frames       {found['frames']}: {', '.join(parts)}"


def _frame_words(row: FrameProvenance) -> str:
    if row.session_id:
        return f"  frame {row.frame_index:<7}step {row.step} of the answer to request {row.seq_id}"
    what = "fallback" if row.is_fallback else "action of a person or a local policy"
    return f"  frame {row.frame_index:<7}{what}"


def _session_words(session: dict[str, Any]) -> list[str]:
    frames = f"frames {session['first_frame']} to {session['last_frame']}"
    requests = session["seq_ids"]
    age = session["age_s"]
    lines = [
        f"  observation  requests {requests[0]} to {requests[-1]} ({len(requests)}) in session "
        f"{session['session_id']} on server {session['server']}, {frames}, "
        f"age p50 {age['p50']:.2f} s, longest {age['max']:.2f} s"
    ]
    if "audit" in session:
        results = Counter(line["result"] for line in session["audit"])
        counts = ", ".join(f"{count} {result}" for result, count in results.items()) or "none found"
        missing = f", {len(session['not_audited'])} not in the file" * bool(session["not_audited"])
        lines += [f"  audit        {counts}{missing}"]
    return lines


def _checkpoint_words(found: dict[str, Any]) -> list[str]:
    title = f"checkpoint {found['checkpoint'][:12]}"
    if not found["run"]:
        return [f"{title}: not in this ledger"]
    decision = found["decision"]
    lines = [
        f"{title}: cycle {found['cycle']} of run {found['run']}, {found['path']}",
        f"  decision     {decision['decision']}: {decision['why']}" if decision else "",
        f"  judged by    {found['evaluation_episodes']} episodes",
    ]
    lines += [f"  {_dataset_words(one)}" for one in found["datasets"]]
    return [line for line in lines if line]


def _dataset_words(found: dict[str, Any]) -> str:
    return (
        f"dataset {found['digest'][:12]}: {len(found['episodes'])} episodes, {found['stage']} of "
        f"cycle {found['cycle']} of run {found['run']}, {found['root']}"
    )
