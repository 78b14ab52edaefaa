"""From a checkpoint to its data and back."""

from tests.ledger.ledgers import REQUEST
from tests.samples import (
    checkpoint_record,
    contract,
    dataset_record,
    episode,
    evaluation_record,
    mix_record,
)

TRAINED_ON = contract().dataset_digest


def commit(ledger, cycle: int, stage: str, record, episodes=()) -> None:
    attempt = ledger.start_attempt("r", cycle, stage, REQUEST)
    ledger.commit_stage(attempt, record, episodes)


def dataset(digest: str, *parents: str, episodes=(0,)):
    return dataset_record(digest=digest, parents=parents, episodes=episodes, root=f"/{digest}")


def found(ledger, checkpoint: str = "c" * 64) -> list[str]:
    return [one["digest"] for one in ledger.lineage(checkpoint)["datasets"]]


def test_a_checkpoint_leads_to_its_dataset_and_its_episodes(ledger):
    commit(ledger, 0, "collect", dataset(TRAINED_ON, episodes=(3, 5)))
    commit(ledger, 0, "train", checkpoint_record())
    lineage = ledger.lineage("c" * 64)
    assert (lineage["run"], lineage["cycle"], lineage["init"]) == ("r", 0, "b" * 64)
    assert lineage["datasets"] == [
        {
            "digest": TRAINED_ON,
            "root": f"/{TRAINED_ON}",
            "episodes": [3, 5],
            "run": "r",
            "cycle": 0,
            "stage": "collect",
        }
    ]


def test_a_dataset_leads_to_the_checkpoints_that_were_trained_on_it(ledger):
    commit(ledger, 0, "train", checkpoint_record(digest="1"))
    commit(ledger, 1, "train", checkpoint_record(digest="2"))
    assert sorted(ledger.checkpoints_of_dataset(TRAINED_ON)) == ["1", "2"]
    assert ledger.checkpoints_of_dataset("unknown") == []


def test_a_checkpoint_that_was_made_twice_is_one(ledger):
    commit(ledger, 0, "train", checkpoint_record())
    commit(ledger, 1, "train", checkpoint_record())
    assert ledger.checkpoints_of_dataset(TRAINED_ON) == ["c" * 64]


def test_datasets_that_were_merged_are_followed_to_the_first(ledger):
    commit(ledger, 0, "collect", dataset("first"))
    commit(ledger, 1, "collect", dataset("second", "first"))
    commit(ledger, 2, "collect", dataset(TRAINED_ON, "second"))
    commit(ledger, 2, "train", checkpoint_record())
    assert found(ledger) == [TRAINED_ON, "second", "first"]


def test_a_dataset_with_two_ways_to_it_appears_once(ledger):
    commit(ledger, 0, "collect", dataset("first"))
    commit(ledger, 1, "collect", dataset("left", "first"))
    commit(ledger, 2, "collect", dataset("right", "first"))
    commit(ledger, 3, "collect", dataset(TRAINED_ON, "left", "right", "first"))
    commit(ledger, 3, "train", checkpoint_record())
    assert found(ledger) == [TRAINED_ON, "left", "right", "first"]


def test_a_mix_is_a_dataset(ledger):
    commit(ledger, 0, "improve", mix_record(dataset=dataset(TRAINED_ON, "elsewhere")))
    commit(ledger, 1, "train", checkpoint_record())
    assert found(ledger) == [TRAINED_ON]


def test_the_episodes_that_judged_a_checkpoint_are_counted(ledger):
    commit(ledger, 0, "train", checkpoint_record())
    record = evaluation_record()
    commit(ledger, 0, "evaluate", record, [episode(seed=0), episode(seed=1)])
    assert ledger.lineage("c" * 64)["evaluation_episodes"] == 2


def test_an_unknown_checkpoint_has_no_lineage(ledger):
    assert ledger.lineage("unknown") == {}


def test_a_digest_is_known_by_its_beginning(ledger):
    commit(ledger, 0, "collect", dataset("ab1"))
    commit(ledger, 0, "train", checkpoint_record(digest="ab2"))
    commit(ledger, 1, "train", checkpoint_record(digest="ab2"))
    assert ledger.digests_beginning("ab") == (["ab2"], ["ab1"])
    assert ledger.digests_beginning("b") == ([], [])
