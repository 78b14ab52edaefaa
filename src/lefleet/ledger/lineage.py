"""Which data made which checkpoint, and what judged it."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
from sqlalchemy import Connection, func, insert, select

from lefleet.ledger import schema
from lefleet.records import (
    CheckpointRecord,
    ComparisonRecord,
    DatasetRecord,
    EpisodeRecord,
    EvaluationRecord,
    GateLook,
    MixRecord,
    Record,
)


class DatasetUseRow(NamedTuple):
    """A dataset that a stage made or chose."""

    root: str
    digest: str
    run: str
    cycle: int
    stage: str
    episodes: int
    """Those in use; the folder may have more."""


def insert_artifacts(
    connection: Connection,
    where: dict[str, Any],
    record: Record,
    episodes: Sequence[EpisodeRecord],
) -> None:
    """What a committed stage brought; `where` is its run, cycle and stage."""
    digests: dict[str, str] = {}
    match record:
        case DatasetRecord():
            _insert_dataset(connection, where, record)
        case MixRecord():
            _insert_dataset(connection, where, record.dataset)
        case CheckpointRecord():
            connection.execute(
                insert(schema.checkpoint).values(
                    run=where["run"],
                    cycle=where["cycle"],
                    digest=record.digest,
                    path=record.path,
                    dataset_digest=record.contract.dataset_digest,
                    init_digest=record.init_digest,
                )
            )
        case ComparisonRecord():
            digests = {"candidate": record.candidate, "baseline": record.baseline}
            _insert_looks(connection, where, record.looks)
        case EvaluationRecord():
            digests["candidate"] = record.result.digest
    if episodes:
        columns = schema.episode.columns.keys()
        rows = [
            {
                **where,
                "checkpoint_digest": digests[episode.policy],
                **{k: v for k, v in msgspec.to_builtins(episode).items() if k in columns},
            }
            for episode in episodes
        ]
        connection.execute(insert(schema.episode), rows)


def _insert_looks(connection: Connection, where: dict[str, Any], looks: Sequence[GateLook]) -> None:
    rows = [
        {
            "run": where["run"],
            "cycle": where["cycle"],
            "look": number,
            "low": look.interval[0],
            "high": look.interval[1],
            **{k: v for k, v in msgspec.structs.asdict(look).items() if k != "interval"},
        }
        for number, look in enumerate(looks, 1)
    ]
    if rows:
        connection.execute(insert(schema.gate_look), rows)


def _insert_dataset(connection: Connection, where: dict[str, Any], record: DatasetRecord) -> None:
    """A dataset, and the part of it that the stage brought where the rest was there before."""
    rows = [(record.digest, record.root, list(record.episodes), list(record.parents))]
    if (added := record.added) is not None:
        rows.append((added.digest, added.root, list(range(added.episodes)), []))
    names = ("digest", "root", "episodes", "parents")
    connection.execute(
        insert(schema.dataset), [where | dict(zip(names, row, strict=True)) for row in rows]
    )


def dataset_uses(connection: Connection) -> list[DatasetUseRow]:
    """Every dataset of every run, oldest first."""
    table = schema.dataset
    count = func.json_array_length(table.c.episodes).label("episodes")
    columns = [count if name == "episodes" else table.c[name] for name in DatasetUseRow._fields]
    rows = connection.execute(select(*columns).order_by(table.c.id))
    return [DatasetUseRow(*row) for row in rows]


def checkpoints_of_dataset(connection: Connection, digest: str) -> list[str]:
    """Digests of the checkpoints that were trained on a dataset."""
    table = schema.checkpoint
    query = select(table.c.digest).filter_by(dataset_digest=digest).distinct()
    return list(connection.execute(query).scalars())


def digests_beginning(connection: Connection, beginning: str) -> tuple[list[str], list[str]]:
    """Digests of checkpoints and of datasets that begin like this, each once."""
    checkpoints, datasets = (
        connection.execute(
            select(table.c.digest).where(table.c.digest.startswith(beginning)).distinct()
        )
        for table in (schema.checkpoint, schema.dataset)
    )
    return list(checkpoints.scalars()), list(datasets.scalars())


def lineage(connection: Connection, digest: str, run: str = "") -> dict[str, Any]:
    """From a checkpoint to its datasets, their episodes, and the episodes that judged it.

    Two runs may have made the same data or checkpoint: then those of `run` are meant.
    """
    table = schema.checkpoint
    query = select(table).filter_by(digest=digest).order_by(table.c.run != run, table.c.id)
    row = connection.execute(query).first()
    if row is None:
        return {}
    judged = select(func.count()).select_from(schema.episode)
    return {
        "checkpoint": digest,
        "path": row.path,
        "run": row.run,
        "cycle": row.cycle,
        "init": row.init_digest,
        "datasets": dataset_lineage(connection, row.dataset_digest, row.run),
        "evaluation_episodes": connection.execute(
            judged.filter_by(checkpoint_digest=digest)
        ).scalar(),
    }


def dataset_lineage(connection: Connection, digest: str, run: str = "") -> list[dict[str, Any]]:
    """A dataset and all that it was merged from, each once; as `run` made it, where it did."""
    table = schema.dataset
    found: dict[str, dict[str, Any]] = {}
    waiting = [digest]
    while waiting:
        digest = waiting.pop(0)
        query = select(table).filter_by(digest=digest).order_by(table.c.run != run, table.c.id)
        row = connection.execute(query).first()
        if row is None or digest in found:
            continue
        found[digest] = {
            "digest": digest,
            "root": row.root,
            "episodes": row.episodes,
            "run": row.run,
            "cycle": row.cycle,
            "stage": row.stage,
        }
        waiting += row.parents
    return list(found.values())
