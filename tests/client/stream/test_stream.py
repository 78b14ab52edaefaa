"""What a control loop gets: actions of the right age, and nothing of before a reset or a pause."""

import time

import numpy as np
import pytest

from lefleet_client.remote import discover_robots
from lefleet_client.stream.failsafe import Fatal
from tests.client.remote.scripted import STATE
from tests.client.stream.driving import CHUNK, FPS, Holding, serves
from tests.client.transport.waiting import eventually


def test_it_begins_paused_and_streams_after_resume(world):
    world.server()
    loop = world.loop(start=False)
    loop.stream.start()
    loop.tick(3)
    assert loop.executed == [None] * 3
    assert loop.stream.status().is_paused
    loop.stream.resume()
    loop.tick_until(lambda: loop.stream.status().executed > 2 * CHUNK)
    assert loop.mode == "streaming"
    assert loop.stream.status().fallbacks == 0


def test_an_action_says_where_it_came_from(world):
    server = world.server(act=(hold := Holding()))
    loop = world.loop()
    loop.tick()
    hold.answer()
    loop.settle()
    first, second = loop.tick(), loop.tick()
    executed = loop.stream.executed
    assert (first.tolist(), second.tolist()) == ([0, 0], [0, 1])
    assert (executed.step, executed.origin.server, executed.origin.digest) == (1, "a", "d1")
    assert executed.origin.seq_id == server.observations[-1].header.seq_id
    assert executed.origin.session_id.startswith("a-")
    assert 0 < executed.age_s < 20


def test_an_action_belongs_to_the_caller(world):
    world.server()
    loop = world.loop(fallback="repeat_last")
    loop.tick_until(lambda: loop.executed[-1] is not None)
    loop.tick()[:] = np.nan
    loop.stream._queue.clear()
    repeated = loop.stream.next_action()
    assert np.isfinite(repeated).all()
    repeated[:] = np.nan
    assert np.isfinite(loop.stream.next_action()).all()


def test_the_snapshot_is_of_the_tick_of_the_observation(world, clock):
    """The worker comes late: what the robot executed meanwhile counts as executed."""
    world.server(act=(hold := Holding()))
    loop = world.loop(clock=clock)
    loop.tick()
    hold.answer()
    loop.settle()
    loop.stream._ask_at = CHUNK
    loop.tick()  # asks at tick 1, and executes the first step
    eventually(lambda: hold.held)
    loop.tick(4)
    hold.answer()
    loop.settle()
    assert loop.tick().tolist() == [1, 5]


def test_no_action_older_than_its_bound_is_executed(world, clock):
    world.server(act=(hold := Holding()))
    loop = world.loop(clock=clock, max_action_age_s=1.0, buffer_time_s=0.1)
    loop.tick()
    hold.answer()
    loop.settle()
    assert loop.tick().tolist() == [0, 0]
    clock.now_s += 0.9
    assert loop.tick().tolist() == [0, 1]
    assert loop.stream.executed.age_s == pytest.approx(0.94)
    clock.now_s += 0.1
    assert loop.tick().tolist() == [0, 1], "the last command again"
    assert loop.stream.executed.origin is None
    assert loop.mode == "stalled"
    assert loop.state.reason == "the next action is 1.06 s old"
    assert loop.stream.status().queued == 0


def test_of_two_appended_chunks_only_the_old_one_is_left_out(world, clock):
    world.server(act=(hold := Holding()))
    loop = world.loop(clock=clock, merge="append", max_action_age_s=2.0, buffer_time_s=1.0)
    loop.tick()
    hold.answer()
    loop.settle()
    clock.now_s += 0.9
    loop.tick()
    hold.answer()
    loop.settle()
    clock.now_s += 1.2
    assert loop.tick().tolist() == [1, 0]


def test_a_chunk_in_flight_over_a_reset_is_dropped(world, clock):
    server = world.server(act=(hold := Holding()))
    loop = world.loop(clock=clock)
    loop.tick()
    eventually(lambda: hold.held)
    loop.stream.reset()
    assert loop.mode == "connecting"
    hold.answer()
    eventually(lambda: loop.stream.status().dropped == 1)
    assert loop.stream.status().queued == 0
    loop.tick()
    hold.answer()
    loop.settle()
    assert loop.tick().tolist() == [1, 0]
    (reset,) = server.resets
    assert (reset.episode_id, server.observations[-1].header.episode_id) == (1, 1)
    assert loop.stream.executed.origin.episode_id == 1


def test_a_chunk_in_flight_over_a_pause_is_dropped(world, clock):
    world.server(act=(hold := Holding()))
    loop = world.loop(clock=clock)
    loop.tick()
    eventually(lambda: hold.held)
    loop.stream.pause()
    assert loop.tick() is None
    loop.stream.resume()
    hold.answer()
    eventually(lambda: loop.stream.status().dropped == 1)
    loop.tick()
    hold.answer()
    loop.settle()
    assert loop.tick().tolist() == [2, 0]


def test_while_paused_nothing_is_asked_and_the_session_is_kept(world):
    server = world.server(act=Holding(at_once=10**6))
    loop = world.loop()
    loop.tick_until(loop.is_in("streaming"))
    loop.stream.pause()
    loop.settle()
    asked = len(server.observations)
    loop.tick(5)
    server.close()
    world.server("b")
    eventually(lambda: loop.stream._worker._policy.server == "b")
    assert len(server.observations) == asked
    assert loop.mode == "reconnecting"


def test_every_reset_reaches_the_server_before_an_observation_of_its_episode(world):
    server = world.server()
    loop = world.loop()
    for _ in range(3):
        loop.stream.reset()
        loop.stream.reset()
        before = loop.stream.status().executed
        loop.tick_until(lambda before=before: loop.stream.status().executed > before)
    assert [reset.episode_id for reset in server.resets] == [1, 2, 3, 4, 5, 6]
    assert server.observations[-1].header.episode_id == 6
    assert loop.stream.executed.origin.episode_id == loop.stream.status().episode == 6


def test_work_of_a_new_episode_waits_for_its_reset(world):
    world.server()
    loop = world.loop(start=False)
    loop.stream.resume()
    loop.stream.reset()
    loop.tick()
    assert loop.stream.take_work(0) is None
    assert loop.stream.take_work(1) is not None


def test_a_reset_that_is_not_acknowledged_only_warns(world, caplog):
    server = world.server()
    loop = world.loop(world.robot(connect_timeout_s=0.2))
    server._declared[1].close()
    loop.stream.reset()
    loop.tick_until(loop.is_in("streaming"))
    assert "did not acknowledge episode 1" in caplog.text


def test_the_history_holds_the_observations_before(world):
    server = world.server(act=(hold := Holding()), served=serves(n_obs_steps=3))
    loop = world.loop()
    loop.tick()
    eventually(lambda: hold.held)
    first = hold.held[0].body
    assert len(first.history) == 0
    loop.tick(3)
    hold.answer()
    loop.settle()
    loop.stream._ask_at = CHUNK
    loop.tick()
    eventually(lambda: hold.held)
    body = server.observations[-1].body
    numbers = [np.frombuffer(one.vectors[STATE].data, np.float32)[0] for one in body.history]
    assert (numbers, server.observations[-1].state[0]) == ([2, 3], 4)
    loop.stream.reset()
    hold.answer()
    loop.settle()
    loop.tick()
    eventually(lambda: hold.held)
    assert len(hold.held[0].body.history) == 0, "of the last episode"


@pytest.mark.parametrize("begins_anew", [False, True])
def test_without_resets_for_long_the_control_loop_may_be_elsewhere(world, clock, begins_anew):
    """Between two episodes people reset the scene; the strategy neither pauses nor asks."""
    server = world.server()
    loop = world.loop(clock=clock, max_offline_s=5.0)
    loop.tick()
    loop.settle()
    loop.tick()
    server.close()
    eventually(loop.is_in("reconnecting"))
    world.server("b")
    eventually(lambda: loop.stream._worker._policy.is_connected)
    clock.now_s += 60
    loop.stream.tick()
    assert loop.mode == "reconnecting"
    if begins_anew:
        loop.stream.reset()
        loop.stream.resume()
    loop.tick(2)
    assert not loop.stream.is_dead
    eventually(lambda: loop.stream.status().queued > 0)
    loop.tick()
    assert loop.mode == "streaming"


def test_the_budget_counts_while_the_control_loop_runs(world, clock):
    server = world.server()
    loop = world.loop(clock=clock, max_offline_s=5.0)
    loop.tick()
    loop.settle()
    loop.tick()
    server.close()
    eventually(loop.is_in("reconnecting"))
    loop.tick(int(4.9 * FPS))
    assert not loop.stream.is_dead
    loop.tick(int(0.2 * FPS))
    assert loop.stream.is_dead
    assert loop.deaths == 1
    assert "no chunk for 5 s: server a went away" in loop.state.reason


def test_a_pause_stops_the_budget(world, clock):
    server = world.server()
    loop = world.loop(clock=clock, max_offline_s=5.0)
    server.close()
    eventually(loop.is_in("reconnecting"))
    loop.tick(int(4 * FPS))
    loop.stream.pause()
    clock.now_s += 1000
    loop.stream.tick()
    loop.stream.resume()
    loop.tick(int(0.8 * FPS))
    assert not loop.stream.is_dead
    loop.tick(int(0.3 * FPS))
    assert loop.stream.is_dead


def test_on_dead_is_told_once_without_the_lock_and_its_errors_go_nowhere(world, caplog):
    def die():
        heard.append(loop.stream.status().state.mode.value)
        raise RuntimeError("in the callback")

    heard = []
    world.server()
    loop = world.loop(on_dead=die)
    loop.stream.feed(Fatal("a test"))
    loop.tick(3)
    assert heard == ["dead"]
    assert "on_dead failed" in caplog.text
    assert loop.executed[-1] is None


def test_dead_executes_nothing_that_is_queued(world):
    world.server()
    loop = world.loop()
    loop.tick_until(lambda: loop.stream.status().executed > 3)
    before = loop.stream.status()
    assert before.queued > 0
    loop.stream.feed(Fatal("a test"))
    held = loop.tick()
    assert loop.stream.executed.origin is None
    assert held.tolist() == loop.executed[-2].tolist(), "positions stay where they were"
    loop.stream.reset()
    loop.stream.pause()
    loop.stream.resume()
    loop.tick(3)
    assert loop.stream.status().executed == before.executed


def test_after_stop_a_robot_with_velocities_is_still_told_to_stand(world):
    names = ("base.vel", "gripper.pos")
    world.server()
    loop = world.loop(action_names=names)
    loop.tick_until(lambda: loop.stream.status().executed > 3)
    last = loop.executed[-1]
    loop.stream.stop()
    loop.stream.stop()
    assert loop.stream.next_action().tolist() == [0, last[1]]


def test_the_status_is_published_and_ends_with_the_stream(world):
    world.server()
    loop = world.loop(task="fold", robot_type="so101", guarded=lambda: (3, 1))
    loop.tick_until(loop.is_in("streaming"))
    node = world.network.node()

    def published():
        (status,) = discover_robots(node).robots
        return status

    loop.tick_until(lambda: published().state == "streaming", 5.0)
    status = published()
    assert (status.client_id, status.task, status.robot_type) == ("arm", "fold", "so101")
    assert (status.clamped, status.refused, status.server) == (3, 1, "a")
    loop.stream.stop()
    assert discover_robots(node).robots == ()


def test_a_fault_in_the_report_does_not_stop_time(world, caplog):
    def fail():
        raise KeyError("guard")

    server = world.server()
    loop = world.loop(guarded=fail, max_offline_s=0.5)
    loop.tick_until(loop.is_in("streaming"))
    server.close()
    loop.tick_until(lambda: loop.stream.is_dead)
    assert caplog.text.count("the robot's state is not published") == 1


def test_stopping_takes_no_longer_than_threads_need(world):
    world.server()
    loop = world.loop()
    began = time.monotonic()
    loop.stream.stop()
    assert time.monotonic() - began < 1.0
