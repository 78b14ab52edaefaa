"""Every row of the contract's table: what is refused, and what is only warned of."""

from dataclasses import replace

import msgspec
import pytest

from lefleet.server.handshake import (
    Accepted,
    HandshakeRules,
    check_handshake,
    giving_way,
    session_limits,
)
from lefleet_client import wire
from tests.server.samples import CAPABILITIES, QUIET, RULES, session, session_open

STATE = "observation.state"


def serving(**changes) -> HandshakeRules:
    """A server with other capabilities."""
    return replace(RULES, capabilities=msgspec.structs.replace(CAPABILITIES, **changes))


def refused(asked, rules=RULES, occupancy=QUIET) -> wire.SessionRejected:
    verdict = check_handshake(asked, rules, occupancy)
    assert isinstance(verdict, wire.SessionRejected)
    return verdict


def warnings(asked, rules=RULES) -> str:
    verdict = check_handshake(asked, rules, QUIET)
    assert isinstance(verdict, Accepted)
    return "\n".join(verdict.warnings)


def test_a_robot_that_fits_is_accepted_without_a_warning():
    assert check_handshake(session_open(), RULES, QUIET) == Accepted(schema_version=1, warnings=())


@pytest.mark.parametrize(
    ("changes", "check", "words"),
    [
        ({"action_names": ("gripper.pos", "shoulder.pos")}, "action_names", "column 0"),
        ({"action_names": ("shoulder.pos",)}, "action_names", "1 columns on the robot, 2"),
        (
            {"vectors": {STATE: ("shoulder.pos", "wrist.pos", "gripper.pos")}},
            "vectors",
            "column 1 is 'wrist.pos' on the robot and 'gripper.pos'",
        ),
        ({"vectors": {STATE: ("shoulder.pos",)}}, "vectors", "1 columns on the robot, 3"),
        ({"vectors": {}}, "vectors", "also needs observation.state"),
        (
            {"cameras": {"observation.images.side": (480, 640, 3)}},
            "cameras",
            "also needs camera observation.images.top",
        ),
        ({"oldest_schema": 7, "newest_schema": 9}, "schema", "versions 7 to 9"),
        ({"pin_digest": "d2"}, "digest", "pins checkpoint d2, this server has d1"),
        ({"model": "lerobot-act"}, "name", "model: the robot asks for 'lerobot-act'"),
        ({"revision": "v2"}, "name", "revision"),
        ({"service": "wipe"}, "name", "service"),
    ],
)
def test_a_robot_that_does_not_fit_is_told_why(changes, check, words):
    verdict = refused(session_open(**changes))
    assert (verdict.check, verdict.load) == (check, 0.25)
    assert words in verdict.reason


def test_another_rate_is_warned_of_and_refused_only_where_that_was_asked_for():
    assert "fps: the robot runs at 20" in warnings(session_open(fps=20.0))
    assert refused(session_open(fps=20.0), replace(RULES, strict_fps=True)).check == "fps"
    assert warnings(session_open(fps=30.05)) == ""


def test_another_task_is_refused_only_where_it_is_pinned():
    asked = session_open(task="wipe the table")
    assert warnings(asked) == ""
    assert refused(asked, replace(RULES, pin_task=True)).check == "task"
    pinned = session_open(task="fold the shirt")
    assert isinstance(check_handshake(pinned, replace(RULES, pin_task=True), QUIET), Accepted)


def test_another_resolution_and_another_shape_are_warned_of():
    def camera(height, width):
        return session_open(cameras={"observation.images.top": (height, width, 3)})

    assert warnings(camera(480, 640)) == ""
    assert warnings(camera(240, 320)) == (
        "observation.images.top: 320 x 240, the policy was trained with 640 x 480"
    )
    assert "640 x 360 has another aspect ratio than the 640 x 480" in warnings(camera(360, 640))


def test_a_camera_too_many_and_another_robot_are_warned_of():
    cameras = {**RULES.contract.cameras, "observation.images.side": (480, 640, 3)}
    told = warnings(session_open(cameras=cameras, robot_type="so100"))
    assert "does not look through observation.images.side" in told
    assert "so100, the policy was trained on so101" in told


def test_rtc_that_the_policy_cannot_do_is_warned_of():
    assert "rtc:" in warnings(session_open(wants_rtc=True))
    assert warnings(session_open(wants_rtc=True), serving(supports_rtc=True)) == ""


def test_a_full_server_names_its_limit_and_its_load():
    verdict = refused(session_open(), occupancy=replace(QUIET, active=2))
    assert (verdict.check, verdict.load) == ("capacity", 0.25)
    assert "all 2 sessions" in verdict.reason


def test_a_handshake_again_does_not_count_against_capacity():
    again = replace(QUIET, active=1, holder="arm 1")
    assert isinstance(check_handshake(session_open(), RULES, again), Accepted)


def test_an_exclusive_policy_says_why_it_takes_one_robot_only():
    rules = replace(
        serving(serving_mode="exclusive"), mode_reason="it keeps a queue", max_sessions=1
    )
    assert "it keeps a queue" in refused(session_open(), rules, replace(QUIET, active=1)).reason


def test_two_clients_that_share_a_place_in_the_key_tree_are_told_apart():
    verdict = refused(session_open(client_id="arm/1"), occupancy=replace(QUIET, holder="arm 1"))
    assert verdict.check == "name"
    assert "choose another" in verdict.reason


def test_a_draining_server_takes_no_robot():
    assert refused(session_open(), occupancy=replace(QUIET, is_draining=True)).check == "draining"


def test_where_names_are_not_known_sizes_still_count_and_the_warning_is_repeated():
    numbered = msgspec.structs.replace(
        RULES.contract, action_names=("0", "1"), vectors={STATE: ("0", "1", "2")}
    )
    rules = replace(serving(contract=numbered), warnings=("the columns have no names",))
    renamed = session_open(action_names=("a", "b"), vectors={STATE: ("x", "y", "z")})
    assert warnings(renamed, rules) == "the columns have no names"
    assert refused(session_open(action_names=("a",)), rules).check == "action_names"
    assert refused(session_open(vectors={STATE: ("x",)}), rules).check == "vectors"


@pytest.mark.parametrize(
    ("sessions", "name"),
    [
        ([], None),
        ([session("fresh", opened_s=71)], None),
        ([session("late", opened_s=70)], "late"),
        ([session("worked", opened_s=0, has_worked=True)], None),
        (
            [
                session("late", opened_s=60),
                session("oldest", opened_s=50),
                session("fresh", opened_s=90),
            ],
            "oldest",
        ),
        ([session("worked", opened_s=10, has_worked=True), session("late", opened_s=60)], "late"),
    ],
)
def test_the_oldest_session_that_never_asked_in_time_gives_way(sessions, name):
    found = giving_way(sessions, now_s=100, first_request_s=30)
    assert (found and found.id) == name


def test_what_a_robot_says_about_itself_comes_back_cut():
    asked = session_open(vectors={"x" * 200 + str(number): ("a",) for number in range(60)})
    assert len(refused(asked).reason) <= 1000
    assert len(warnings(session_open(robot_type="x" * 16_000))) <= 1000


def test_an_observation_may_be_as_large_as_its_contract_can_need():
    """Raw images of 16 times the pixels of training; a small camera may have 640 x 480."""
    raw = 16 * 640 * 480 * 3
    assert raw < session_limits(session_open(), CAPABILITIES).body.max_bytes < raw + 100_000
    small = msgspec.structs.replace(RULES.contract, cameras={"observation.images.top": (24, 32, 3)})
    limits = session_limits(session_open(), msgspec.structs.replace(CAPABILITIES, contract=small))
    assert 640 * 480 * 3 < limits.body.max_bytes < 640 * 480 * 3 + 100_000
    assert limits.pixels == {"observation.images.top": 640 * 480}


def test_cameras_that_are_not_used_count_in_bytes_only_and_not_without_end():
    def limits(number: int) -> wire.ObservationLimits:
        unused = {f"observation.images.{one}": (1080, 1920, 3) for one in range(number)}
        cameras = {**RULES.contract.cameras, **unused}
        return session_limits(session_open(cameras=cameras), CAPABILITIES)

    none, one, many = (limits(number) for number in (0, 1, 60))
    assert one.body.max_bytes - none.body.max_bytes >= 1080 * 1920 * 3
    assert many.body.max_bytes - none.body.max_bytes < 2 * 1080 * 1920 * 3 + 60 * 5000
    assert many.pixels == none.pixels
