"""film: see what both checkpoints did in a pair of a gate."""

import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from lefleet.actions.films import find_gate, make_films
from lefleet.actions.people import user_name
from lefleet.cli.options import OutputOptions, WorkdirOptions
from lefleet.cli.output import print_json, printable
from lefleet.cli.parse import absolute
from lefleet.cli.progress import show_phases
from lefleet.errors import BadInput
from lefleet.stages.films import FILMS, EpisodeFilm, PairFilm


@dataclass(frozen=True, kw_only=True)
class FilmCommand(WorkdirOptions):
    """Film pairs of a gate: both checkpoints on the same seed, run again with the camera on."""

    gate: Annotated[str, Positional, arg(metavar="RUN:CYCLE")]
    """The gate of this cycle."""
    task: str = ""
    """Task of the pair. Default: LeFleet chooses pairs, those that differ first."""
    seed: Annotated[int | None, arg(metavar="INT", help_behavior_hint="")] = None
    """Seed of the pair."""
    pairs: int = 2
    """Number of pairs that LeFleet chooses."""


FILM_COMMANDS: dict[str, type[OutputOptions]] = {"film": FilmCommand}


def film(command: FilmCommand) -> int:
    """Make the films, or find them; print where they are. Exit code 1: some could not be made."""
    run, _, cycle = command.gate.rpartition(":")
    if not run or not cycle.isdecimal():
        raise BadInput(f"gate: {command.gate} names no cycle of a run.", "Write it as demo:2.")
    if bool(command.task) != (command.seed is not None):
        raise BadInput("task, seed: only one of them is given.", "Give both, or none.")
    if command.pairs < 1:
        raise BadInput(f"pairs: {command.pairs}.", "Ask for 1 or more.")
    gate = find_gate(absolute(command.workdir, "workdir"), run, int(cycle))
    if command.seed is not None:
        trials = [gate.pair(command.task, command.seed)]
    else:
        trials = gate.chosen(command.pairs)
    with show_phases(command.gate, as_lines=command.json) as progress:
        films = make_films(gate, trials, user_name(), progress)
    folder = gate.folder / FILMS
    if command.json:
        print_json({"folder": str(folder), "films": films})
    else:
        for one in films:
            print("\n".join(_lines(one, folder)))
    return 0 if all(one.state == "made" for one in films) else 1


def _lines(made: PairFilm, folder: Path) -> Iterator[str]:
    pair = f"{made.task}, seed {made.seed}"
    if made.candidate is None or made.baseline is None:
        print(f"lefleet: {pair}: {printable(made.problem)}", file=sys.stderr)
        return
    yield f"{pair}:"
    for name, episode in (("candidate", made.candidate), ("baseline", made.baseline)):
        yield f"  {name} {_ended(episode)}: {folder / episode.video}"


def _ended(episode: EpisodeFilm) -> str:
    how = "succeeded" if episode.success else "failed"
    other = "" if episode.is_same else " (not as in the gate: this machine computes otherwise)"
    return f"{how} after {episode.length} steps{other}"
