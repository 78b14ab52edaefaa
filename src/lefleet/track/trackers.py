"""The writers: they bring a tracker up to date, and change nothing in one that is.

They run in a process of their own, which may be killed at any time.
"""

import os
import shutil
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

from lefleet.track.names import PROJECT, TRACKIO_DIR
from lefleet.track.series import Series

_PARTIAL = ".partial"


def write_trackio(series: Sequence[Series], folder: Path) -> None:
    """Put what is missing into trackio's database in `folder`.

    Past `trackio.log`, which gives a point a new identity each time: trackio's storage takes a
    point with an identity that it has seen for the same one.
    """
    for name in [name for name in os.environ if name.startswith("TRACKIO_")]:
        # A Space, a bucket or a server that the user has set up: this stays on the machine.
        del os.environ[name]
    os.environ[TRACKIO_DIR] = str(folder)
    os.environ["HF_HUB_OFFLINE"] = "1"
    from trackio.sqlite_storage import SQLiteStorage

    for one in series:
        SQLiteStorage.bulk_log(
            project=PROJECT,
            run=one.name,
            metrics_list=[point.values for point in one.points],
            steps=[point.step for point in one.points],
            timestamps=[datetime.fromtimestamp(point.at, UTC).isoformat() for point in one.points],
            config={**one.config, "_Group": one.group},
            log_ids=[f"{one.id}-{point.step}" for point in one.points],
            run_id=one.id,
        )


def write_wandb(series: Sequence[Series], folder: Path) -> None:
    """Make the offline files of each series in a folder of its own below `folder`.

    The name of that folder ends with the number of points. It is renamed to that when it is
    complete, and only then is one with fewer points removed. So what a writer that was killed has
    left is never taken for a result, and no point is there twice.
    """
    for one in series:
        if one.kind == "train":
            continue  # LeRobot logs its trainings to W&B itself.
        made = folder / f"{one.kind}_{one.id}_{len(one.points)}"
        if not made.exists():
            partial = folder / _PARTIAL
            shutil.rmtree(partial, ignore_errors=True)
            partial.mkdir(parents=True)
            _log_offline(one, partial)
            partial.rename(made)
        for older in folder.glob(f"{one.kind}_{one.id}_*"):
            if older != made:
                shutil.rmtree(older)
    with suppress(FileNotFoundError):
        shutil.rmtree(folder / _PARTIAL)


def _log_offline(series: Series, folder: Path) -> None:
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        # What the user has set for other programs must not send this anywhere, or disable it.
        del os.environ[name]
    os.environ["WANDB_ERROR_REPORTING"] = "false"
    os.environ["WANDB_CACHE_DIR"] = os.environ["WANDB_CONFIG_DIR"] = str(folder / ".own")
    import wandb

    quiet = wandb.Settings(
        console="off",
        disable_git=True,
        silent=True,
        x_disable_machine_info=True,
        x_disable_meta=True,
        x_disable_stats=True,
    )
    run = wandb.init(
        project=PROJECT,
        id=series.id,
        name=series.name,
        group=series.group,
        job_type=series.kind,
        config=series.config,
        dir=folder,
        mode="offline",
        save_code=False,
        settings=quiet,
    )
    for point in series.points:
        run.log({**point.values, "_timestamp": point.at}, step=point.step)
    run.finish()
    shutil.rmtree(folder / ".own", ignore_errors=True)
