"""`lefleet rollout` with each of LeRobot's strategies, on a real server process."""

import itertools
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest
from lerobot.scripts import lerobot_rollout  # noqa: F401 - registers robots and teleoperators

from lefleet.cli import rollout as command
from lefleet.edge.flags import parse_flags
from lefleet.edge.rollout import run_rollout
from lefleet.errors import BadInput, LeFleetError
from lefleet.recording import outcomes
from lefleet.robots import LeFleetSim
from lefleet.stages.references import find_checkpoint
from lefleet_client.remote import Refused
from tests.edge.cell import (
    SIM,
    WHERE_IT_IS,
    Cell,
    Keyboard,
    Service,
    loaded,
    provenance,
    recording,
)
from tests.edge.plant import ROOT

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def weights(checkpoint):
    return find_checkpoint(str(checkpoint), "checkpoint").path


@pytest.fixture(scope="module")
def service(weights, tmp_path_factory):
    service = Service(weights, tmp_path_factory.mktemp("service"))
    yield service
    service.close()


@pytest.fixture
def keyboard(monkeypatch):
    keyboard = Keyboard(monkeypatch)
    yield keyboard
    keyboard.close()


def test_sentry_records_all_the_time_and_its_frames_join_the_servers_audit_log(service, tmp_path):
    root = tmp_path / "data"
    flags = ("--strategy.type=sentry", "--duration=0.5", WHERE_IT_IS, *recording(root))
    with Cell(*service.flags, *flags) as cell:
        pass
    assert cell.raised is None
    dataset = loaded(root)
    assert (dataset.num_episodes, dataset.fps) == (1, 80)
    (rows,) = provenance(root, dataset)
    audit = [json.loads(line) for line in service.audit.read_text().splitlines()]
    known = {(line["session_id"], line["seq_id"]) for line in audit if "seq_id" in line}
    origins = {(row.session_id, row.seq_id) for row in rows if not row.is_fallback}
    assert origins <= known
    assert len({session for session, _ in origins}) == 1
    assert outcomes(root)[0].success is None, "it was cut off"


def test_highlight_keeps_the_seconds_before_the_key_with_their_provenance(
    service, tmp_path, keyboard
):
    root = tmp_path / "data"
    flags = ("--strategy.type=highlight", "--strategy.ring_buffer_seconds=0.5", *recording(root))
    with Cell(*service.flags, *flags, WHERE_IT_IS) as cell:
        cell.moves(steps=80)
        keyboard.press("s")
        cell.until(lambda: cell.robot.extras.steps > 120)
        keyboard.press("s")
        cell.until(lambda: cell.robot.extras.steps > 160)
        keyboard.press("h")
        keyboard.press("\x1b")
    assert cell.raised is None
    dataset = loaded(root)
    assert dataset.num_episodes == 1
    assert dataset.num_frames > 60, "half a second before the first key, and what followed"
    (rows,) = provenance(root, dataset)
    steps = [(row.seq_id, row.step) for row in rows if not row.is_fallback]
    assert len(steps) == len(set(steps)), "an action is executed once"


def test_keys_label_undo_repeat_and_end_episodes_and_the_terminal_is_restored(
    service, tmp_path, keyboard
):
    root, before = tmp_path / "data", keyboard.attributes
    flags = ("--strategy.type=episodic", "--dataset.num_episodes=9", *recording(root))
    with Cell(*service.flags, *flags, WHERE_IT_IS) as cell:
        cell.moves(0)
        assert keyboard.attributes != before
        keyboard.press("f")
        cell.moves(1)
        keyboard.press("r")  # scene 1 is recorded again, as scene 2
        cell.moves(2)
        keyboard.press("u")  # the label of the last episode
        cell.until(lambda: 0 not in outcomes(root))
        keyboard.press("s")
        cell.moves(3)
        keyboard.press("n")
        cell.moves(4)
        keyboard.press("q")
    assert cell.raised is None
    assert keyboard.attributes == before
    assert loaded(root).num_episodes == 4
    labels = {k: (one.source, one.success) for k, one in outcomes(root).items()}
    assert labels == {1: ("key", True), 2: ("environment", None), 3: ("environment", None)}


def test_an_episode_of_a_simulation_ends_by_itself_and_is_labelled_by_it(service, tmp_path):
    root = tmp_path / "data"
    flags = ("--strategy.type=episodic", "--dataset.num_episodes=2", "--robot.horizon=40")
    with Cell(*service.flags, *flags, *recording(root), WHERE_IT_IS) as cell:
        pass
    assert cell.raised is None
    assert loaded(root).num_episodes == 2
    assert {(one.source, one.success) for one in outcomes(root).values()} == {
        ("environment", False)
    }


def test_dagger_records_what_the_expert_corrects(service, tmp_path, keyboard, caplog):
    caplog.set_level("INFO")
    root = tmp_path / "data"
    flags = (
        "--strategy.type=dagger",
        "--strategy.num_episodes=1",
        "--strategy.smooth_handover=false",
        "--teleop.type=lefleet_sim_expert",
    )
    with Cell(*service.flags, *flags, *recording(root), WHERE_IT_IS) as cell:
        cell.moves()
        keyboard.press(" ")
        cell.until(lambda: "autonomous -> paused" in caplog.text)
        keyboard.press("\t")
        cell.until(lambda: "paused -> correcting" in caplog.text)
        corrected = len(cell.poses)
        cell.until(lambda: len(cell.poses) > corrected + 30)
        keyboard.press("\t")
    assert cell.raised is None
    dataset = loaded(root)
    assert dataset.num_episodes == 1
    assert all(bool(frame["intervention"]) for frame in dataset)
    actions = np.array([frame["action"].numpy() for frame in dataset])
    assert actions[0].tolist() == [0.0, 0.0, 0.0, -1.0], "the expert stops first"
    (rows,) = provenance(root, dataset)
    assert not any(row.session_id or row.is_fallback for row in rows)


def test_no_weights_are_opened_for_a_remote_policy_and_nothing_waits_for_a_key(
    service, weights, tmp_path
):
    program = tmp_path / "program.py"
    program.write_text(WEIGHTLESS)
    flags = [*SIM, *service.flags, "--duration=0.3", WHERE_IT_IS]
    out = subprocess.run(
        [sys.executable, program, str(weights), *flags],
        cwd=ROOT,
        env=os.environ | {"HF_HUB_OFFLINE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert out.returncode == 0, out.stderr
    opened = json.loads(out.stdout.splitlines()[-1])
    assert opened["codes"] == [0, 0]
    assert opened["configs"] == ["config.json", "policy_preprocessor.json"]
    assert opened["weights"] == []


WEIGHTLESS = """
import json, sys
opened = []
sys.addaudithook(lambda event, args: event == "open" and opened.append(str(args[0])))
from lefleet.cli import main
weights, *flags = sys.argv[1:]
codes = []
for more in ([], [f"--policy.path={weights}"]):
    sys.argv = ["lefleet", "rollout", *flags, *more]
    codes.append(main())
mine = {one.rpartition("/")[2] for one in opened if one.startswith(weights)}
print(json.dumps({
    "codes": codes,
    "configs": sorted(mine),
    "weights": [one for one in opened if one.endswith((".safetensors", ".bin", ".pt"))],
}))
"""


def test_a_checkpoint_that_is_not_the_served_one_is_refused(service, checkpoint_of):
    cfg = parse_flags([*SIM, *service.flags, f"--policy.path={checkpoint_of('act_environment')}"])
    with pytest.raises(BadInput, match=r"policy.path: its columns of .*; the server's: "):
        run_rollout(cfg, None)


def test_the_same_command_without_a_network(weights, tmp_path):
    root = tmp_path / "data"
    flags = ("--inference.type=sync", f"--policy.path={weights}", "--strategy.type=sentry")
    with Cell(
        *flags, "--duration=0.5", "--guard.max_step=0.2", WHERE_IT_IS, *recording(root)
    ) as cell:
        pass
    assert cell.raised is None
    (rows,) = provenance(root, loaded(root))
    assert not any(row.session_id or row.is_fallback for row in rows)
    cfg = parse_flags([*SIM, "--inference.type=rtc", f"--policy.path={weights}"])
    with pytest.raises(BadInput, match="a policy of type act cannot do rtc"):
        run_rollout(cfg, None)


def test_uploads_begin_when_the_robot_is_at_home_and_their_failure_keeps_the_dataset(
    service, tmp_path, monkeypatch
):
    root = tmp_path / "data"
    flags = ("--strategy.type=sentry", "--duration=0.5", "--dataset.push_to_hub=true")
    asked = []

    def create_repo(*_, **__):
        asked.append((cell.robot.is_connected, cell.is_at_home))
        raise ConnectionError("no route to the hub")

    monkeypatch.setattr("lerobot.datasets.lerobot_dataset.HfApi.create_repo", create_repo)
    with Cell(*service.flags, *flags, *recording(root)) as cell:
        pass
    assert asked == [(False, True)]
    assert isinstance(cell.raised, LeFleetError)
    assert cell.raised.exit_code == 1
    assert str(cell.raised).startswith("The dataset is not uploaded: no route to the hub.")
    assert loaded(root).num_episodes == 1


def test_a_closed_terminal_leaves_no_robot_behind(service, tmp_path, keyboard):
    root = tmp_path / "data"
    flags = ("--strategy.type=episodic", "--dataset.num_episodes=9", *recording(root))
    with Cell(*service.flags, *flags) as cell:
        cell.moves()
        keyboard.unplug()
        cell.shutdown.set()
    assert str(cell.raised).startswith("The strategy did not end as it should: ")
    assert cell.is_at_home
    assert loaded(root).num_episodes == 1


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_rollout_in_order(service, tmp_path, monkeypatch, capsys, number):
    root, before = tmp_path / "data", signal.getsignal(number)
    robots = []
    real = LeFleetSim.send_action

    def send_action(robot, action):
        sent = real(robot, action)
        if not robots:
            robots.append(robot)
            os.kill(os.getpid(), number)
        return sent

    monkeypatch.setattr(LeFleetSim, "send_action", send_action)
    flags = (*SIM, *service.flags, WHERE_IT_IS, "--strategy.type=sentry", *recording(root))
    assert command.rollout(list(flags)) == 0
    assert "1 episode is in " in capsys.readouterr().out
    assert not robots[0].is_connected
    assert signal.getsignal(number) is before


def test_a_refusal_of_the_server_is_bad_input(monkeypatch):
    def refuse(*_):
        raise Refused("cameras", "top", "the robot lacks camera top")

    monkeypatch.setattr("lefleet.edge.rollout.run_rollout", refuse)
    with pytest.raises(BadInput, match="the robot lacks camera top"):
        command.rollout([*SIM, "--inference.type=remote"])


def test_a_second_signal_skips_only_the_way_home(service, monkeypatch):
    numbers = itertools.count()
    real = LeFleetSim.send_action

    def send_action(robot, action):
        if next(numbers) in (5, 30):
            os.kill(os.getpid(), signal.SIGINT)
        robots.append(robot)
        return real(robot, action)

    robots = []
    monkeypatch.setattr(LeFleetSim, "send_action", send_action)
    with pytest.raises(KeyboardInterrupt):
        command.rollout([*SIM, *service.flags])
    assert not robots[0].is_connected
    assert len(robots) < 60


def test_a_policy_that_is_lost_for_good_ends_the_rollout_at_home(service, tmp_path):
    """The last one: it kills the server."""
    root = tmp_path / "data"
    flags = ("--strategy.type=episodic", "--inference.max_offline_s=1", *recording(root))
    with Cell(*service.flags, *flags) as cell:
        cell.moves()
        service.server.kill()
    assert isinstance(cell.raised, LeFleetError)
    assert cell.raised.exit_code == 1
    assert str(cell.raised).startswith("The rollout ended: no chunk for 1 s: ")
    assert str(cell.raised).endswith("The robot was driven to its initial pose.")
    assert cell.is_at_home
    dataset = loaded(root)
    assert dataset.num_episodes == 1
    (rows,) = provenance(root, dataset)
    assert rows[-1].is_fallback
    assert outcomes(root)[0].success is None
