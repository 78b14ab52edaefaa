"""How a chunk meets what is left of the last one."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lefleet_client.stream.queue import ActionQueue, Origin, steps_of


def chunk_of(tick: int, steps: int, most: int | None = None):
    """A chunk whose rows are (tick of its observation, step)."""
    rows = np.stack([np.full(steps, tick), np.arange(steps)], axis=1).astype(np.float32)
    origin = Origin(float(tick), "session", tick, 0, "d1", "a")
    return steps_of(-rows, rows, origin, most or steps)


def taken(queue: ActionQueue, count: int) -> list[list[float]]:
    return [queue.take().robot.tolist() for _ in range(count)]


def test_steps_carry_both_sides_their_origin_and_their_number():
    *_, last = chunk_of(3, steps=8, most=5)
    assert (last.step, last.origin.seq_id) == (4, 3)
    assert (last.robot.tolist(), last.model.tolist()) == ([3, 4], [-3, -4])


@pytest.mark.parametrize("how", ["rtc", "aligned"])
def test_what_was_executed_meanwhile_is_left_out(how):
    queue = ActionQueue()
    queue.merge(chunk_of(0, 10), queue.snapshot(), how)
    taken(queue, 4)
    before = queue.snapshot()
    taken(queue, 3)
    queue.merge(chunk_of(4, 10), before, how)
    assert queue.next.robot.tolist() == [4, 3]
    assert len(queue) == 7


@pytest.mark.parametrize("how", ["rtc", "aligned"])
def test_an_idle_start_keeps_the_head_of_a_chunk(how):
    """However long the answer took: the robot executed nothing."""
    queue = ActionQueue()
    queue.merge(chunk_of(0, 10), queue.snapshot(), how)
    assert (len(queue), queue.next.step) == (10, 0)


def test_a_queue_that_ran_dry_is_trimmed_by_what_there_was():
    queue = ActionQueue()
    queue.merge(chunk_of(0, 3), queue.snapshot(), "aligned")
    before = queue.snapshot()
    taken(queue, 3)
    queue.merge(chunk_of(1, 10), before, "aligned")
    assert queue.next.robot.tolist() == [1, 3]


def test_a_chunk_that_is_shorter_than_what_was_executed_leaves_nothing():
    queue = ActionQueue()
    queue.merge(chunk_of(0, 8), queue.snapshot(), "aligned")
    before = queue.snapshot()
    taken(queue, 8)
    queue.merge(chunk_of(0, 5), before, "aligned")
    assert (len(queue), queue.next) == (0, None)


def test_append_stands_behind_what_is_left():
    queue = ActionQueue()
    queue.merge(chunk_of(0, 4), queue.snapshot(), "append")
    before = queue.snapshot()
    taken(queue, 2)
    queue.merge(chunk_of(1, 2), before, "append")
    assert taken(queue, 4) == [[0, 2], [0, 3], [1, 0], [1, 1]]


def test_dropped_and_cleared_actions_do_not_count_as_executed():
    queue = ActionQueue()
    queue.merge(chunk_of(0, 4), queue.snapshot(), "aligned")
    before = queue.snapshot()
    queue.drop()
    queue.clear()
    queue.merge(chunk_of(1, 4), before, "aligned")
    assert queue.next.step == 0


def test_a_snapshot_has_both_sides_of_what_is_left_and_does_not_change():
    queue = ActionQueue()
    assert queue.snapshot().left_model is queue.snapshot().left_robot is None
    queue.merge(chunk_of(0, 4), queue.snapshot(), "aligned")
    taken(queue, 1)
    before = queue.snapshot()
    taken(queue, 2)
    assert before.left_robot.tolist() == [[0, 1], [0, 2], [0, 3]]
    assert before.left_model.tolist() == [[0, -1], [0, -2], [0, -3]]


@given(
    steps=st.integers(2, 40),
    ask_at=st.integers(0, 40),
    latencies=st.lists(st.integers(0, 39), min_size=1, max_size=20),
)
def test_with_any_latency_below_the_playback_each_step_is_executed_at_its_time(
    steps, ask_at, latencies
):
    """Aligned: at every tick the robot executes the step of the ticks since the observation.

    So between two chunks no step is executed twice, and none is left out. Each answer comes before
    what is left has been executed; `ask_at` is how much is left when the next one is asked for.
    """
    queue = ActionQueue()
    queue.merge(chunk_of(0, steps), queue.snapshot(), "aligned")
    executed = []
    tick, flight = 0, None
    ask_at = min(ask_at, steps - 1)
    for latency in latencies:
        while flight is None:
            if len(queue) <= max(1, ask_at):
                due = tick + min(latency, len(queue) - 1)
                flight = (tick, queue.snapshot(), due)
            else:
                executed.append((tick, queue.take()))
                tick += 1
        asked, before, due = flight
        while tick < due:
            executed.append((tick, queue.take()))
            tick += 1
        queue.merge(chunk_of(asked, steps), before, "aligned")
        executed.append((tick, queue.take()))
        tick, flight = tick + 1, None
    assert [tick for tick, _ in executed] == list(range(len(executed)))
    for tick, action in executed:
        assert action.step == tick - action.origin.seq_id
