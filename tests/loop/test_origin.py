"""What a run takes from another one, and when it is refused."""

import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.ledger import open_ledger
from lefleet.ledger.config_change import ConfigChange
from lefleet.loop.origin import OriginName, find_origin, parse_origin, require_own_seeds
from lefleet.loop.requests import cycle_inputs, make_request
from lefleet.loop.state import read_state
from lefleet.loop.steps import Decide, Propose, RunStage, next_step
from lefleet.records import (
    AddedData,
    Budgets,
    DatasetSource,
    EvaluatePlan,
    ExpertGrowth,
    ImprovePlan,
    Rung,
)
from lefleet.stages.digest import checkpoint_digest
from lefleet.stages.progress import DIGESTING
from tests.ledger.ledgers import REQUEST
from tests.loop.states import BLESSING, config, decision, gate, proposal, result
from tests.samples import (
    checkpoint_record,
    comparison_record,
    dataset_record,
    evaluation_record,
    mix_record,
)

FRESH = ("collect", "gate", "improve")


class Runs:
    """A work folder whose runs are played without processes: checkpoints and datasets are small
    folders, records are as the stages would write them."""

    def __init__(self, workdir) -> None:
        self.workdir = workdir
        self.ledger = open_ledger(workdir)

    def start(self, name: str, *, start: str = "", **changes):
        of = config(**{"name": name} | changes)
        origin = self.origin(start, of) if start else None
        assert self.ledger.create_run(name, msgspec.to_builtins(of), msgspec.to_builtins(origin))
        return self.state(name)

    def origin(self, start: str, of):
        return find_origin(self.ledger, self.workdir, parse_origin(start), of)

    def extend(self, name: str, cycles: int) -> None:
        more = msgspec.structs.replace(self.state(name).config, budgets=Budgets(cycles=cycles))
        require_own_seeds(self.ledger, name, more)
        change = ConfigChange(msgspec.to_builtins(more.budgets), {}, {}, None)
        self.ledger.resume_run(name, change)

    def state(self, name: str):
        return read_state(self.ledger, self.ledger.run(name))

    def play(self, name: str, *outcomes: str) -> dict[tuple[int, str], object]:
        """Carry on with these decisions; the requests of all stages on the way."""
        made, left = {}, list(outcomes)
        while left:
            state, folder = self.state(name), self.workdir / name
            match next_step(state):
                case RunStage(cycle, stage):
                    made[cycle, stage] = make_request(cycle_inputs(state, folder, cycle), stage)
                    attempt = self.ledger.start_attempt(name, cycle, stage, REQUEST)
                    self.ledger.commit_stage(attempt, self._record(name, cycle, stage))
                case Propose(cycle):
                    self.ledger.record_proposal(name, proposal(cycle, state.config))
                case Decide(cycle):
                    word, before = left.pop(0), state.blessed()
                    mine = state.current.checkpoint().digest
                    kept = before.digest if before else ""
                    blessed = mine if word in BLESSING else kept
                    values = {"candidate": mine}
                    if state.current.gate():
                        values["gate"] = gate("better" if word == "promote" else "inconclusive")
                    blessing = decision(cycle, word, blessed, state.rung(), **values)
                    self.ledger.record_decision(name, blessing)
        return made

    def _record(self, name: str, cycle: int, stage: str):
        folder = self.workdir / name / f"cycle_{cycle}" / stage
        match stage:
            case "collect":
                (folder / "dataset").mkdir(parents=True)
                added = AddedData(digest=f"{name}{cycle}", root=str(folder), episodes=2)
                return dataset_record(digest=f"{name}{cycle}m", added=added, tallies={})
            case "improve":
                (folder / "added").mkdir(parents=True)
                added = AddedData(digest=f"{name}{cycle}i", root=str(folder), episodes=3)
                return mix_record(dataset=dataset_record(added=added), tallies={})
            case "train":
                folder.mkdir(parents=True)
                (folder / "config.json").write_text(f'{{"made_by": "{name}{cycle}"}}')
                return checkpoint_record(path=str(folder), digest=checkpoint_digest(folder))
            case "evaluate":
                digest = self.state(name).current.checkpoint().digest
                values = msgspec.structs.replace(result(3), digest=digest)
                return evaluation_record(result=values)
            case _:
                return comparison_record()


@pytest.fixture
def runs(tmp_path):
    made = Runs(tmp_path)
    yield made
    made.ledger.close()


def parts(request) -> list[str]:
    return [path.rpartition("cycle_")[2] for path in request.add_to]


@pytest.mark.parametrize(
    ("text", "name"), [("demo", OriginName("demo", None)), ("demo:2", OriginName("demo", 2))]
)
def test_a_name_with_or_without_a_cycle(text, name):
    assert parse_origin(text) == name


def test_a_run_starts_with_the_other_runs_data_and_is_gated_from_its_first_cycle(runs):
    runs.start("a")
    runs.play("a", "baseline", "promote", "iterate")
    blessed = runs.state("a").blessed()
    state = runs.start("b", start="a")
    assert (state.origin.run, state.origin.cycle) == ("a", 2)
    assert state.blessed().digest == blessed.digest
    made = runs.play("b", "iterate", "promote")
    first = made[0, "collect"]
    assert parts(first) == ["0/collect/dataset", "1/collect/dataset", "2/collect/dataset"]
    assert first.add_to_digests == ("a0", "a1", "a2")
    assert made[0, "train"].init == blessed.path
    assert made[0, "gate"].baseline == blessed.path
    assert parts(made[1, "collect"])[-1] == "0/collect/dataset"
    assert made[1, "collect"].add_to[-1].startswith(str(runs.workdir / "b"))
    assert [one.cycle for one in runs.state("b").gates_before(2)] == [0, 1]
    assert runs.state("b").planned_gates == 3


def test_a_cycle_is_named_and_what_was_blessed_then_is_taken(runs):
    runs.start("a")
    runs.play("a", "baseline", "iterate", "promote")
    first = runs.state("a").cycles[0].checkpoint()
    state = runs.start("b", start="a:1")
    assert state.blessed().digest == first.digest
    assert [data.digest for data in state.origin.data] == ["a0", "a1"]
    assert state.origin.result.digest == first.digest
    assert state.result_of(first.digest).overall.rate == 0.75


def test_seeds_are_fresh_for_all_purposes_and_the_evaluation_is_that_of_the_other_run(runs):
    improving = {"improve": ImprovePlan(method="harvest"), "budgets": Budgets(cycles=9)}
    runs.start("a", **improving)
    made = [runs.play("a", "baseline", "promote", "iterate")]
    runs.start("b", start="a:0", **improving)
    made.append(runs.play("b", "promote", "iterate"))
    runs.start("c", start="b:0", **improving)
    made.append(runs.play("c", "promote", "iterate"))
    seeds = [
        (stage, request.seed)
        for one in made
        for (_, stage), request in one.items()
        if stage in (*FRESH, "train")
    ]
    assert len(set(seeds)) == len(seeds)
    evaluations = {r.seed for one in made for (_, s), r in one.items() if s == "evaluate"}
    assert len(evaluations) == 1


def test_another_seed_starts_at_its_own_first_cycle(runs):
    runs.start("a")
    runs.play("a", "baseline")
    assert runs.start("b", start="a", seed=1).origin.seed_cycles == 0
    runs.play("b", "iterate")
    assert runs.start("c", start="b").origin.seed_cycles > 0
    assert runs.start("d", start="b", seed=1).origin.seed_cycles > 0


def test_runs_with_a_common_origin_that_are_extended_share_no_seeds(runs):
    runs.start("a")
    made = [runs.play("a", "baseline", "promote", "iterate")]
    for name, start in (("b", "a"), ("c", "a:1"), ("d", "a"), ("e", "b")):
        runs.start(name, start=start)
        made.append(runs.play(name, "iterate"))
    for name in "abcde":
        runs.extend(name, 9)
    made += [runs.play(name, *["iterate"] * 6) for name in "abcde"]
    seeds = [
        (stage, request.seed)
        for one in made
        for (_, stage), request in one.items()
        if stage in (*FRESH, "train")
    ]
    assert len(seeds) == 3 * (9 + 4 * 7) - 1, "the first cycle of the first run has no gate"
    assert len(set(seeds)) == len(seeds)


def test_a_run_is_not_extended_into_the_seeds_of_another(runs):
    runs.start("a")
    runs.play("a", "baseline")
    first = runs.start("b", start="a").origin.seed_cycles
    with pytest.raises(BadInput) as caught:
        runs.extend("a", first + 1)
    assert str(caught.value) == (
        f"budgets.cycles: the seeds after {first} cycles of a belong to the run b. Allow at most "
        f"{first}, or start a new run from this one: lefleet run -c FILE --from a --name=NAME"
    )
    runs.extend("a", first)
    with pytest.raises(BadInput, match="one seed is enough for 100 cycles of a run and all that"):
        runs.start("c", start="a", budgets=Budgets(cycles=60))


def test_seeds_of_unrelated_runs_do_not_matter(runs):
    for name in "ab":
        runs.start(name)
        runs.play(name, "baseline")
    runs.ledger.create_run("foreign", {"name": "foreign", "colour": "red"})
    runs.start("c", start="b")
    runs.extend("a", 100)


def test_a_run_from_a_run_from_a_run_keeps_all_data_and_the_first_checkpoint(runs):
    runs.start("a")
    runs.play("a", "baseline")
    runs.start("b", start="a")
    runs.play("b", "iterate")
    state = runs.start("c", start="b")
    assert [data.digest for data in state.origin.data] == ["a0", "b0"]
    assert state.blessed() == runs.state("b").origin.checkpoint
    made = runs.play("c", "iterate")
    assert made[0, "train"].init == state.blessed().path


def test_what_policies_made_counts_and_what_led_to_a_rollback_is_not_taken(runs):
    improving = {"improve": ImprovePlan(method="harvest"), "budgets": Budgets(cycles=9)}
    runs.start("a", **improving)
    runs.play("a", "baseline", "rollback", "iterate")
    state = runs.start("b", start="a:1", **improving)
    assert [data.digest for data in state.origin.data] == ["a0", "a1", "a1i"]
    assert runs.start("c", start="a:0", **improving).origin.data[-1].digest == "a0"
    made = runs.play("b", "iterate", "iterate")
    assert made[0, "improve"].self_generated == 3


def test_an_existing_dataset_takes_only_the_checkpoint(runs):
    runs.start("a")
    runs.play("a", "baseline")
    state = runs.start("b", start="a", collect=DatasetSource(repo_id="u/d"))
    assert state.origin.data == ()
    assert runs.play("b", "iterate")[0, "train"].init == runs.state("a").blessed().path


SMALL, BIG = Rung(name="small"), Rung(name="big", policy={"dim_model": "128"})


@pytest.mark.parametrize(
    ("ladder", "rung", "continues"),
    [
        ((SMALL, BIG), 0, True),
        ((BIG, SMALL), 1, True),
        ((Rung(name="longer", steps=9000),), 0, True),
        ((BIG,), 0, False),
        ((Rung(name="small", policy_type="diffusion"),), 0, False),
    ],
)
def test_the_training_continues_on_the_rung_with_the_same_policy(runs, ladder, rung, continues):
    runs.start("a", ladder=(SMALL, BIG))
    runs.play("a", "baseline")
    blessed = runs.state("a").blessed()
    assert runs.start("b", start="a", ladder=ladder).rung() == rung
    made = runs.play("b", "iterate")
    assert made[0, "train"].init == (blessed.path if continues else "")
    assert made[0, "gate"].baseline == blessed.path


def test_lineage_leads_into_the_other_run(runs):
    runs.start("a")
    runs.play("a", "baseline")
    origin = runs.start("b", start="a").origin
    assert runs.ledger.lineage(origin.checkpoint.digest)["run"] == "a"
    assert runs.ledger.events("b")[0].data == {"origin": "a:0"}


@pytest.mark.parametrize(
    ("start", "changes", "problem"),
    [
        ("none", {}, "from: there is no run called none. Runs here: empty, a."),
        ("a:7", {}, "from: a has no decision about cycle 7. Its last one is about cycle 1."),
        ("a:0", {}, "from: a has no blessed checkpoint after cycle 0."),
        ("empty", {}, "from: empty has not decided about a cycle yet."),
        ("b", {}, "from: b cannot start from itself."),
        ("a", {"tasks": ("push", "reach")}, "tasks: a was evaluated on push"),
        ("a", {"evaluate": EvaluatePlan(env={"type": "pusht"})}, "evaluate.env: a was evaluated"),
        ("a", {"collect": ExpertGrowth(cameras=("top",))}, "collect.cameras: a has none, this con"),
        ("a", {"budgets": Budgets(cycles=99)}, "budgets.cycles: one seed is enough for 100"),
    ],
)
def test_a_start_that_is_impossible_is_refused(runs, start, changes, problem):
    runs.start("empty")
    runs.start("a")
    runs.play("a", "iterate", "baseline")
    with pytest.raises(BadInput) as caught:
        runs.origin(start, config(**{"name": "b"} | changes))
    assert str(caught.value).startswith(problem)


def test_the_digest_of_the_checkpoint_is_a_phase(runs):
    runs.start("a")
    runs.play("a", "baseline")
    said = []
    find_origin(runs.ledger, runs.workdir, OriginName("a", None), config(name="b"), said.append)
    assert said == [DIGESTING]


def test_a_cycle_that_is_no_number_is_refused():
    with pytest.raises(BadInput, match=r"from: 'last' is not a cycle of a\. Write a:0 or a\."):
        parse_origin("a:last")


def test_files_that_were_deleted_or_changed_are_named(runs):
    runs.start("a")
    runs.play("a", "baseline")
    weights = runs.workdir / "a/cycle_0/train"
    data = runs.workdir / "a/cycle_0/collect/dataset"
    data.rename(runs.workdir / "elsewhere")
    with pytest.raises(BadInput, match=f"the data of a:0 is missing: {data}"):
        runs.origin("a", config(name="b"))
    (weights / "config.json").write_text("{}")
    with pytest.raises(BadInput, match=rf"the checkpoint of a:0 in {weights} has changed"):
        runs.origin("a", config(name="b"))
    weights.rename(runs.workdir / "gone")
    with pytest.raises(BadInput, match=f"the checkpoint of a:0 is missing: {weights}"):
        runs.origin("a", config(name="b"))
