"""Which fields of a run's config may still change: one rule for every field."""

import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.loop.corrections import RULES, field_changes, require_correctable, rule_of, run_facts
from lefleet.records import (
    DatasetSource,
    EvaluatePlan,
    ExpertGrowth,
    GatePlan,
    RunConfig,
    Rung,
)
from tests.loop.states import config, cycle, decision, state

DONE = ("collect", "train", "evaluate")
NOTHING: tuple = ()


def keys_of(kind, key: str = ""):
    """Every field of a config as the table knows it."""
    for field in msgspec.structs.fields(kind):
        name = f"{key}.{field.name}" if key else field.name
        if name == "collect":
            yield name
            for one in (ExpertGrowth, DatasetSource):
                yield from keys_of(one, f"collect.{one.__struct_config__.tag}")
        elif name == "ladder":
            yield name
            yield from keys_of(Rung, "ladder[]")
        elif isinstance(field.type, type) and issubclass(field.type, msgspec.Struct):
            yield from keys_of(field.type, name)
        else:
            yield name


def test_every_field_has_a_rule_and_every_rule_a_field():
    used = set()
    for key in keys_of(RunConfig):
        rule_of(key)
        used.add(key if key in RULES else f"{key.partition('.')[0]}.*")
    assert used == set(RULES)


def test_a_rule_that_forbids_says_why():
    assert all(bool(rule.until) == bool(rule.why) for rule in RULES.values())


def changed(**changes) -> dict[str, tuple]:
    before = config()
    now = msgspec.structs.replace(before, **changes)
    return {one.field: (one.before, one.now) for one in field_changes(before, now)}


def test_changes_are_told_field_by_field():
    rungs = (Rung(name="small", steps=5), Rung(name="big"))
    assert changed() == {}
    assert changed(ladder=rungs, seed=3) == {"seed": (0, 3), "ladder[0].steps": (1000, 5)}
    assert changed(collect=ExpertGrowth(noise=0.5)) == {"collect.noise": (0.0, 0.5)}
    assert changed(evaluate=EvaluatePlan(env={"type": "a"})) == {
        "evaluate.env": ({}, {"type": "a"})
    }
    assert list(changed(collect=DatasetSource(root="/d"))) == ["collect"]
    assert list(changed(ladder=rungs[:1])) == ["ladder"]


def allowed(now, gates=NOTHING, **changes) -> bool:
    found = field_changes(now.config, msgspec.structs.replace(now.config, **changes))
    assert found
    try:
        require_correctable(now, found, run_facts(now, gates))
    except BadInput:
        return False
    return True


FRESH = state(cycle(0))
COLLECTED = state(cycle(0, "collect"))
TRAINED = state(cycle(0, "collect", "train"))
EVALUATED = state(cycle(0, *DONE))
DECIDED = state(cycle(0, *DONE, decided=decision(0, "baseline", "c0")))
ENV = {"evaluate": EvaluatePlan(env={"type": "pusht"})}
DATA = {"collect": DatasetSource(root="/d")}
FIRST = {"ladder": (Rung(name="small", init="hub/a"), Rung(name="big"))}
SECOND = {"ladder": (Rung(name="small"), Rung(name="big", init="hub/a"))}
STEPS = {"ladder": (Rung(name="small", steps=7), Rung(name="big"))}
TEST = {"gate": GatePlan(alpha=0.01)}


@pytest.mark.parametrize(
    ("changes", "until"),
    [(DATA, COLLECTED), (FIRST, TRAINED), (ENV, EVALUATED), (STEPS, None), (SECOND, None)],
    ids=["data", "policy", "environment", "steps", "policy of a later rung"],
)
def test_a_field_may_change_until_something_was_made_with_it(changes, until):
    moments = [FRESH, COLLECTED, TRAINED, EVALUATED, DECIDED]
    last = len(moments) if until is None else moments.index(until)
    assert [allowed(one, **changes) for one in moments] == [
        number < last for number in range(len(moments))
    ]


def test_a_gate_that_was_begun_has_shown_its_data():
    assert allowed(DECIDED, **TEST)
    assert not allowed(DECIDED, gates={0}, **TEST)
    assert allowed(DECIDED, gates={0}, gate=GatePlan(films=9))


def test_the_remedy_starts_from_the_run_where_that_is_possible():
    def remedy(now, **changes) -> str:
        found = field_changes(now.config, msgspec.structs.replace(now.config, **changes))
        with pytest.raises(BadInput) as caught:
            require_correctable(now, found, run_facts(now, NOTHING))
        return caught.value.remedy

    assert remedy(DECIDED, seed=4).endswith("lefleet run -c FILE --from r --name=NEW --seed=4")
    assert remedy(FRESH, seed=4).endswith("lefleet run -c FILE --name=NEW --seed=4")
    assert "--from" not in remedy(DECIDED, **ENV)
