"""What trackio's database and W&B's offline files hold, read back."""

import json
import sqlite3
from pathlib import Path
from typing import Any

Rows = dict[str, list[dict[str, Any]]]
"""By name of the series, in the order of writing."""


def trackio_rows(folder: Path) -> Rows:
    found: Rows = {}
    with sqlite3.connect(folder / "lefleet.db") as database:
        query = "SELECT run_name, step, metrics FROM metrics ORDER BY run_name, id"
        for name, step, metrics in database.execute(query):
            found.setdefault(name, []).append({"step": step, **json.loads(metrics)})
    database.close()
    return found


def wandb_rows(folder: Path) -> Rows:
    """Of every run below `folder`, those of LeRobot's trainings too."""
    from wandb.proto import wandb_internal_pb2
    from wandb.sdk.internal.datastore import DataStore

    found: Rows = {}
    for file in sorted(folder.rglob("offline-run-*/run-*.wandb")):
        store, name = DataStore(), ""
        store.open_for_scan(str(file))
        while (data := store.scan_data()) is not None:
            record = wandb_internal_pb2.Record()
            record.ParseFromString(data)
            if record.WhichOneof("record_type") == "run":
                name = record.run.display_name
                found.setdefault(name, [])
            elif record.WhichOneof("record_type") == "history":
                values = {
                    "/".join(item.nested_key) or item.key: json.loads(item.value_json)
                    for item in record.history.item
                }
                found[name].append({"step": values.pop("_step"), **values})
        store.close()
    return found
