"""What programs change through the API: rights, repeats, conflicts, and real processes behind."""

import time
from contextlib import closing

import msgspec
import pytest
import yaml

from lefleet.actions.people import RIGHTS
from lefleet.dash.api.errors import Problem
from lefleet.ledger import open_ledger, read_ledger
from lefleet.stages.films import FILMS
from tests.constitution.cases import constitution
from tests.dash.programs import V1, WAITING, Program, work_folder
from tests.gates import CYCLE, RUN
from tests.ledger.ledgers import has_controller

LONG_S = 300.0
PAGE = "/knowledge/pages/tasks/push.md"
ANSWER = "/approvals/1/answer"
YES, NO = {"approved": True}, {"approved": False, "why": "it shakes"}


@pytest.fixture
def context(tmp_path, comparison, demos):
    return work_folder(tmp_path, comparison, demos)


@pytest.fixture
def anna(context):
    """May do everything."""
    return Program(context, "anna", *RIGHTS)


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory, comparison, demos):
    """For requests that are all refused."""
    return work_folder(tmp_path_factory.mktemp("unchanged"), comparison, demos)


@pytest.fixture(scope="module")
def carl(unchanged):
    """May do everything there."""
    return Program(unchanged, "carl", *RIGHTS)


def labels_of(anna: Program) -> str:
    """Address of the labels of the recorded dataset's first episode."""
    (found,) = [one for one in anna.asks("/datasets")["items"] if one["name"] == "demos"]
    return f"/datasets/{found['id']}/episodes/0/labels"


def state_of(context, run: str) -> str:
    with closing(read_ledger(context.workdir)) as ledger:
        return ledger.run(run).state


def until(is_so) -> None:
    deadline = time.monotonic() + LONG_S
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.1)


# Who may


CHANGES = {
    "approve": [(ANSWER, YES)],
    "label": [("LABELS", {"outcome": "success", "key": "k"})],
    "run": [
        ("/runs", {"template": "demo", "name": "mine"}),
        ("/runs/plan", {"template": "demo", "name": "mine"}),
        (f"/runs/{WAITING}/stop", None),
        (f"/runs/{WAITING}/resume", None),
    ],
    "film": [(f"/runs/{RUN}/cycles/{CYCLE}/films", {"task": "push", "seed": 0})],
    "edit": [(PAGE, {"text": "x", "base": "x"})],
}


def change(program: Program, path: str, body, status: int):
    return (program.puts if path == PAGE else program.says)(path, body, status)


def test_each_change_needs_its_right(unchanged, carl):
    others = {
        right: Program(unchanged, f"not {right}", *(one for one in RIGHTS if one != right))
        for right in RIGHTS
    }
    nobody, labels = Program(unchanged), labels_of(carl)
    with closing(read_ledger(unchanged.workdir)) as ledger:
        before = ledger.feed.newest()
    for right, changes in CHANGES.items():
        for path, body in changes:
            where = path.replace("LABELS", labels)
            assert f"--may {right}" in change(others[right], where, body, 403)["remedy"]
            change(nobody, where, body, 401)
    with closing(read_ledger(unchanged.workdir)) as ledger:
        assert ledger.feed.newest() == before
        assert ledger.labels.newest() == 0


def test_who_has_no_token_reads_nothing(unchanged):
    nobody = Program(unchanged)
    for path in ("/health", "/runs", "/nothing"):
        nobody.asks(path, 401)
    assert nobody.get("/api/openapi.json").status_code == 401


# Bodies


@pytest.mark.parametrize(
    ("content", "kind", "status"),
    [
        (b'{"approved": true}', "text/plain", 415),
        (b'{"approved": true}', "application/x-www-form-urlencoded", 415),
        (b'{"approved": true}', "", 415),
        (b"", "application/json", 400),
        (b"{", "application/json", 400),
        (b"[]", "application/json", 400),
        (b"null", "application/json", 400),
        (b"\xff", "application/json", 400),
        (b'{"approved": "\\ud800"}', "application/json", 400),
        (b'{"approved": "yes"}', "application/json", 400),
        (b'{"approved": 1}', "application/json", 400),
        (b'{"approved": true, "who": "root"}', "application/json", 400),
        (b'{"approved": false}', "application/json", 400),
        (b'{"approved": false, "why": " \\n"}', "application/json; charset=utf-8", 400),
        (b'{"approved": false, "why": "%s"}' % (2001 * b"x"), "application/json", 400),
        (b'{"approved": true, "why": "%s"}' % (3_000_000 * b"x"), "application/json", 413),
        (b"[" * 100_000, "application/json", 400),
    ],
)
def test_a_body_that_is_wrong_changes_nothing(unchanged, carl, content, kind, status):
    headers = {"content-type": kind} if kind else {}
    answer = carl.post(f"{V1}{ANSWER}", content=content, headers=headers)
    assert answer.status_code == status
    msgspec.json.decode(answer.content, type=Problem)
    assert carl.asks("/approvals/1")["answer"] is None
    assert state_of(unchanged, WAITING) == "waiting"


# Approvals


def test_an_answer_lets_the_run_go_on_and_is_given_once(context, anna):
    bert = Program(context, "bert", "approve")
    first = anna.says(ANSWER, YES)
    assert (first["answer"]["approved"], first["answer"]["who"]) == (True, "anna (token)")
    assert anna.says(ANSWER, YES) == first
    assert "anna (token) approved question 1" in bert.says(ANSWER, NO, 409)["problem"]
    bert.says(ANSWER, YES, 409)
    anna.says(ANSWER, NO, 409)
    # A real controller does what was approved.
    until(lambda: state_of(context, WAITING) == "finished")
    assert anna.says(ANSWER, YES) == first == anna.asks("/approvals/answered")["items"][0]
    assert anna.asks("/approvals")["total"] == 0
    detail = anna.asks(f"/runs/{WAITING}")
    assert detail["card"]["last_decision"] == "promote"
    said = anna.asks(f"/runs/{WAITING}/events", group="people")["items"]
    assert [one["text"] for one in said if one["kind"] == "approved"] == [
        "promote approved by anna (token)"
    ]
    until(lambda: not has_controller(context.workdir / WAITING))


def test_a_no_keeps_its_reason(context, anna):
    assert anna.says(ANSWER, NO)["answer"]["why"] == "it shakes"
    assert anna.says(ANSWER, {"approved": False, "why": "again"})["answer"]["why"] == "it shakes"
    until(lambda: state_of(context, WAITING) == "finished")
    until(lambda: not has_controller(context.workdir / WAITING))
    anna.says("/approvals/2/answer", YES, 404)


# Labels


def test_a_label_is_added_once_for_each_key(context, anna):
    labels = labels_of(anna)
    episode = labels.removesuffix("/labels")
    wanted = {"outcome": "failure", "note": "it slipped", "key": "one"}
    assert anna.says(labels, wanted)["is_new"]
    again = anna.says(labels, wanted)
    assert not again["is_new"]
    assert again["counts"]["who"] == "anna (token)"
    (said,) = anna.asks(episode)["history"]
    assert (said["outcome"], said["note"]) == ("failure", "it slipped")
    assert said["is_in_ledger"]
    assert said["is_in_dataset"]
    anna.says(labels, {"outcome": "success", "key": "one"}, 409)
    Program(context, "bert", "label").says(labels, wanted, 409)
    anna.says(labels, {"outcome": "success", "key": "two"})
    assert anna.asks(episode)["label"]["outcome"] == "success"
    anna.says(labels, {"outcome": "undo", "key": "three"})
    assert anna.asks(episode)["label"]["outcome"] == "failure"
    assert anna.asks(f"{episode.rpartition('/')[0]}", label="failure")["total"] == 1


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("LABELS", {"outcome": "undo", "key": "k"}, 400),
        ("LABELS", {"outcome": "great", "key": "k"}, 400),
        ("LABELS", {"outcome": "success", "key": ""}, 400),
        ("LABELS", {"outcome": "success", "key": "x" * 201}, 400),
        ("LABELS", {"outcome": "success", "key": "\n"}, 400),
        ("LABELS", {"outcome": "success"}, 400),
        ("/datasets/nobody/episodes/0/labels", {"outcome": "success", "key": "k"}, 404),
        ("EPISODES/15/labels", {"outcome": "success", "key": "k"}, 404),
    ],
)
def test_a_label_that_cannot_be_is_refused(carl, path, body, status):
    labels = labels_of(carl)
    episodes = labels.removesuffix("/0/labels")
    carl.says(path.replace("LABELS", labels).replace("EPISODES", episodes), body, status)
    assert carl.asks(labels.removesuffix("/labels"))["history"] == []


# Films


def test_a_film_is_made_once_and_can_be_watched(context, anna):
    path = f"/runs/{RUN}/cycles/{CYCLE}/films"
    pair = anna.asks(f"/runs/{RUN}/cycles/{CYCLE}/pairs", differing="true")["items"][0]
    wanted = {"task": pair["task"], "seed": pair["seed"]}
    assert anna.says(path, wanted)["state"] == "requested"
    bert = Program(context, "bert", "film")
    until(lambda: bert.says(path, wanted)["state"] == "made")
    film = bert.says(path, wanted)
    assert film["who"] == "anna (token)"
    assert len([*(context.workdir / RUN / f"cycle_{CYCLE}/gate" / FILMS).glob("*.json")]) == 1
    address = f"/media/runs/{RUN}/cycles/{CYCLE}/gate/{film['candidate']['video']}"
    whole = bert.get(address)
    assert (whole.status_code, whole.headers["content-type"]) == (200, "video/mp4")
    part = bert.get(address, headers={"range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, whole.content[10:20])
    assert Program(context).get(address).status_code == 401


def test_a_film_of_no_pair_is_refused(carl):
    carl.says(f"/runs/{RUN}/cycles/{CYCLE}/films", {"task": "push", "seed": 1}, 404)
    carl.says(f"/runs/{RUN}/cycles/0/films", {"task": "push", "seed": 1}, 404)
    carl.says(f"/runs/{RUN}/cycles/{CYCLE}/films", {"task": "push", "seed": -1}, 400)
    carl.says(f"/runs/{RUN}/cycles/{CYCLE}/films", {"task": "push", "seed": 2**64}, 400)


# Knowledge


def test_a_page_is_edited_once_and_never_over_the_text_of_somebody_else(context, anna):
    page = anna.asks(PAGE)
    mine = {"text": f"{page['text']}\nMind the left motor.\n", "base": page["digest"]}
    saved = anna.puts(PAGE, mine)
    assert saved["is_changed"]
    assert anna.puts(PAGE, mine) == {**saved, "is_changed": False}
    now = anna.asks(PAGE)
    assert (now["text"], now["digest"]) == (mine["text"], saved["digest"])
    assert [one["who"] for one in now["edits"]] == ["anna (token)"]
    bert = Program(context, "bert", "edit")
    bert.puts(PAGE, {"text": f"{page['text']}\nOther.\n", "base": page["digest"]}, 409)
    bert.puts(PAGE, {"text": "no front matter", "base": saved["digest"]}, 400)
    bert.puts("/knowledge/pages/tasks/new.md", mine, 404)
    bert.puts("/knowledge/pages/..%2f/ledger.db", mine, 404)
    assert anna.asks(PAGE)["text"] == mine["text"]


# Runs


def test_a_plan_starts_nothing(unchanged, carl):
    lines = carl.says("/runs/plan", {"template": "demo", "name": "mine", "cycles": 1})["lines"]
    assert any("train" in line for line in lines)
    assert not (unchanged.workdir / "mine").exists()


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ({"template": "nothing", "name": "mine"}, 400),
        ({"template": "run:nobody", "name": "mine"}, 400),
        ({"template": "file:../../etc/passwd", "name": "mine"}, 400),
        ({"template": "demo", "name": "../mine"}, 400),
        ({"template": "demo", "name": ""}, 400),
        ({"template": "demo", "name": "mine", "cycles": 0}, 400),
        ({"template": "demo", "name": "mine", "policy": {}}, 400),
        ({"template": "demo", "name": WAITING}, 400),
    ],
)
def test_a_run_that_cannot_be_is_refused(unchanged, carl, body, status):
    carl.says("/runs", body, status)
    with closing(read_ledger(unchanged.workdir)) as ledger:
        assert {one.id for one in ledger.runs()} == {RUN, WAITING}


def test_what_the_constitution_denies_is_not_started(context, anna):
    rules = msgspec.to_builtins(constitution(caps={"steps": 10}))
    (context.workdir / "constitution.yaml").write_text(yaml.safe_dump(rules))
    body = {"template": "demo", "name": "mine"}
    assert anna.says("/runs", body, 403)["problem"].startswith("caps.steps")
    anna.says("/runs/plan", body, 403)
    with closing(read_ledger(context.workdir)) as ledger:
        assert ledger.run("mine") is None


def test_a_run_is_started_stopped_and_resumed_by_real_processes(context, anna):
    body = {"template": "demo", "name": "mine", "cycles": 1}
    assert anna.says("/runs", body) == {"run": "mine", "happened": "created"}
    until(lambda: has_controller(context.workdir / "mine"))
    assert anna.says("/runs", body)["happened"] == "attached"
    anna.says("/runs", {**body, "seed": 5}, 400)
    for _ in range(2):
        assert anna.says("/runs/mine/stop")["happened"] in ("stopping", "stopped")
    until(lambda: not has_controller(context.workdir / "mine"))
    assert anna.says("/runs/mine/stop")["happened"] == "stopped"
    assert anna.says("/runs/mine/resume")["happened"] == "resumed"
    until(lambda: has_controller(context.workdir / "mine"))
    assert anna.says("/runs/mine/resume")["happened"] == "attached"
    assert anna.says("/runs/mine/stop")["happened"] == "stopping"
    until(lambda: not has_controller(context.workdir / "mine"))
    with closing(open_ledger(context.workdir)) as ledger:
        people = {one.data["by"] for one in ledger.events("mine") if "by" in one.data}
    assert people == {"anna (token)"}
    for action in ("stop", "resume"):
        anna.says(f"/runs/nobody/{action}", status=404)
