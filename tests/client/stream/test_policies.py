"""Real policies: each action is the step of its observation's chunk that belongs to its tick."""

import numpy as np
import pytest

from lefleet_client.stream import LockStep
from tests.client.stream.driving import Clock, Loop
from tests.client.transport.waiting import eventually
from tests.policy import tiny
from tests.server.serving import Bench, Gated, loaded, observation

FPS = 80.0
DELAY = 16
"""Ticks until the server answers: 200 ms."""
CHUNK = 60


class Slow(Gated):
    """A policy that answers after so many ticks, and at once before the robot moves."""

    def __init__(self, policy) -> None:
        super().__init__(policy)
        self.may_end.release(4)
        self.due: int | None = None

    def step(self, loop: Loop, ticks: int) -> None:
        """Between `notify` and `next_action`: let the request leave, or the answer come."""
        if self.due is None and loop.stream._work is not None:
            eventually(lambda: loop.stream._work is None)
        if self.due is None and loop.stream._is_in_flight:
            self.due = loop.now + ticks
        if self.due == loop.now:
            self.may_end.release()
            eventually(lambda: not loop.stream._is_in_flight)
            self.due = None


def noting(robot) -> list:
    """What is asked from now on: observations, and all that goes with them."""

    def note(newest, **rest):
        sent.append((newest, rest))
        return infer(newest, **rest)

    sent, infer = [], robot.infer
    robot.infer = note
    return sent


@pytest.fixture(scope="module")
def act(tmp_path_factory):
    folder = tiny.act_environment(
        tmp_path_factory.mktemp("act"), chunk_size=CHUNK, n_action_steps=CHUNK
    )
    return folder, loaded(folder)


@pytest.mark.parametrize("delay", [1, DELAY, 28])
def test_aligned_replace_executes_each_step_at_its_tick(act, clock: Clock, delay):
    """200 ms at 80 Hz, and others: no step of a chunk is executed twice, and none is left out."""
    folder, policy = act
    slow = Slow(policy)
    seen = [observation(policy, tick) for tick in range(300)]
    with Bench(folder, slow) as bench:
        loop = Loop(
            bench.robot("arm"), clock=clock, fps=FPS,
            action_names=tiny.JOINTS, convert=lambda tick: seen[tick],
        )  # fmt: skip
        executed = []
        for tick in range(300):
            loop.now = tick
            loop.stream.notify(tick)
            slow.step(loop, delay)
            action = loop.stream.next_action()
            executed.append((action, loop.stream.executed))
            clock.now_s += 1 / FPS
        sessions = {one.origin.session_id for _, one in executed if one.origin}
        loop.stream.stop()
        slow.may_end.release(10)
    began = next(tick for tick, (_, one) in enumerate(executed) if one.origin is not None)
    assert began == delay
    assert all(one.origin is not None for _, one in executed[began:])
    with Bench(folder, policy) as bench, bench.robot("reference") as reference:
        chunks = {}
        steps = []
        for tick, (action, one) in enumerate(executed[began:], began):
            asked = round((one.origin.observed_at_s - executed_start(clock, 300)) * FPS)
            if asked not in chunks:
                chunks[asked] = reference.infer(seen[asked]).robot
            # The first chunk was awaited by a robot that stood still: it begins with its head.
            since = tick - asked - (delay if asked == 0 else 0)
            assert one.step == since
            np.testing.assert_array_equal(action, chunks[asked][since])
            steps.append((asked, since))
    assert len(set(steps)) == len(steps)
    assert len(chunks) > 3
    assert len(sessions) == 1


def executed_start(clock: Clock, ticks: int) -> float:
    """When the first tick was."""
    return clock.now_s - ticks / FPS


def test_a_policy_that_looks_back_gets_the_ticks_before(policy_of, checkpoint_of, clock):
    policy = policy_of("diffusion_history")
    seen = [observation(policy, tick) for tick in range(40)]
    with Bench(checkpoint_of("diffusion_history"), policy) as bench:
        robot = bench.robot("arm")
        sent = noting(robot)
        loop = Loop(
            robot, clock=clock, fps=20.0, action_names=tiny.JOINTS,
            convert=lambda tick: seen[tick],
        )  # fmt: skip
        del sent[:]
        for tick in range(12):
            loop.stream.notify(tick)
            eventually(lambda: loop.stream._work is None and not loop.stream._is_in_flight)
            assert loop.stream.next_action() is not None
            clock.now_s += 0.05
        loop.stream.stop()
    numbers = [next(n for n, one in enumerate(seen) if one is newest) for newest, _ in sent]
    histories = [rest["history"] for _, rest in sent]
    assert numbers[0] == 0
    assert len(numbers) > 2
    assert histories[0] == []
    for number, (before,) in zip(numbers[1:], histories[1:], strict=True):
        assert before is seen[number - 1]


def test_real_time_chunking_gets_what_is_left_and_the_delay(policy_of, checkpoint_of, clock):
    policy = policy_of("rtc_flow")
    folder = checkpoint_of("rtc_flow")
    slow = Slow(policy)
    with Bench(folder, slow, {"model__discover_packages": f"[{tiny.PLUGINS}]"}) as bench:
        robot = bench.robot("arm")
        sent = noting(robot)
        loop = Loop(
            robot, clock=clock, fps=20.0, action_names=tiny.JOINTS,
            convert=lambda tick: observation(policy, tick), buffer_time_s=0.2,
        )  # fmt: skip
        assert loop.stream.plan.merge == "rtc"
        assert loop.stream.plan.execute_steps == policy.capabilities.chunk_size
        del sent[:]
        for tick in range(30):
            loop.now = tick
            loop.stream.notify(tick)
            slow.step(loop, 2)
            loop.stream.next_action()
            clock.now_s += 0.05
        loop.stream.stop()
        slow.may_end.release(10)
    first, *later = [rest for _, rest in sent]
    assert (first["prefix_robot"], first["prefix_model"]) == (None, None)
    assert len(later) > 1
    horizon = policy.capabilities.rtc_horizon
    for rest in later:
        # The buffer: four steps are left when the next chunk is asked for.
        assert rest["prefix_robot"].shape == rest["prefix_model"].shape == (4, 3)
        assert 0 < rest["inference_delay_steps"] <= horizon


def test_lock_step_gives_the_actions_of_the_policy_in_this_process(policy_of, checkpoint_of):
    policy, folder = policy_of("act_environment"), checkpoint_of("act_environment")
    with Bench(folder, policy) as bench, bench.robot("reference") as reference:
        steps = LockStep(bench.robot("arm"), execute_steps=3)
        for _ in range(2):
            steps.reset()
            for tick in range(7):
                action = steps.next_action(observation(policy, tick))
                chunk = reference.infer(observation(policy, tick - tick % 3)).robot
                np.testing.assert_array_equal(action, chunk[tick % 3])
        steps.stop()
        with pytest.raises(ValueError, match="execute_steps: 9, and a chunk has 8"):
            LockStep(bench.robot("other"), execute_steps=9)
