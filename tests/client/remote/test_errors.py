"""Each way in which a server can disappoint a robot, and that the next call starts over."""

import pickle
import threading
import weakref
from contextlib import suppress

import pytest

from lefleet_client import wire
from lefleet_client.remote import (
    NoServer,
    Refused,
    RemotePolicy,
    Replaced,
    RequestRejected,
    ServerDraining,
    SeveralServices,
    TimedOut,
    WrongModel,
    connection,
    discovery,
    exchange,
)
from tests.client.remote.scripted import Once, answer, hurried, keep_asking, observation
from tests.client.transport.waiting import LONG_S, bounded


def rejection(check: str, reason: str = "because") -> wire.SessionRejected:
    return wire.SessionRejected(check=check, reason=reason, load=1.0)


def test_no_server_is_there(world):
    with pytest.raises(NoServer, match=r"service 'fold' at test; no other server answers"):
        world.robot(timeout_s=0.2)


def test_no_program_listens():
    with pytest.raises(NoServer, match=r"tcp/127\.0\.0\.1:1 within 0\.3 s"):
        RemotePolicy("tcp/127.0.0.1:1", "fold", connect_timeout_s=0.3)


def test_a_misspelt_service_fails_at_once_with_the_services_there_are(any_world):
    any_world.server(service="fold shirts")
    any_world.network.settle()

    def connect():
        text = r"'unfold' .*there is 'fold shirts' \(lerobot/act main\)"
        with pytest.raises(NoServer, match=text):
            any_world.robot("unfold", timeout_s=LONG_S * 3)

    bounded(connect)


def test_a_service_that_vanished_is_waited_for_beside_others(world):
    server = world.server(act=lambda request: server.close())
    policy = world.robot(timeout_s=LONG_S)
    world.server("other", service="pick")
    timer = threading.Timer(0.5, lambda: world.server("b"))
    timer.start()
    assert policy.infer(observation()).server == "b"
    timer.join()


def test_the_service_can_be_named_as_in_the_key(world):
    world.server(service="fold shirts")
    world.server("b", service="fold/shirts")
    assert world.robot("fold shirts").server == "a"
    assert world.robot("fold/shirts", client_id="other").server == "b"


def test_an_exact_name_hides_those_that_fold_to_it(world):
    world.server(service="fold shirts")
    world.server("b", service="fold-shirts")
    assert world.robot("fold-shirts").server == "b"


def test_without_a_service_the_only_one_is_taken(world):
    world.server()
    world.server("b")
    assert world.robot("").infer(observation()).server in {"a", "b"}


def test_of_several_services_none_is_guessed(world):
    world.server()
    world.server("b", service="pick")
    with pytest.raises(SeveralServices, match=r"'fold' .*'pick' .*say which"):
        world.robot("")


def test_another_model_is_refused(world):
    server = world.server()
    with pytest.raises(WrongModel, match=r"'lerobot/pi0' is wanted, but 'fold' \(lerobot/act"):
        world.robot(model="lerobot/pi0")
    with pytest.raises(WrongModel, match="revision 'v2' is wanted"):
        world.robot(revision="v2")
    assert server.opens == []


def test_another_checkpoint_than_the_pinned_one_is_refused(world):
    world.server()
    with pytest.raises(WrongModel, match=r"serves checkpoint d1, pinned is d2; change pin_digest"):
        world.robot(pin_digest="d2")
    world.robot(pin_digest="d1")


def test_a_busy_server_is_asked_again(world):
    server = world.server(rejection=rejection("busy"))
    with pytest.raises(NoServer, match="busy"):
        world.robot(timeout_s=0.5)
    assert len(server.opens) > 1


def test_a_server_may_find_the_checkpoint_wrong(world):
    world.server(rejection=rejection("digest"))
    with pytest.raises(WrongModel):
        world.robot()


@pytest.mark.parametrize("check", ["name", "action_names", "cameras", "task", "of the future"])
def test_a_refusal_says_which_check_failed_and_why(world, check):
    world.server(rejection=rejection(check, "column 0 is 'a'"))
    with pytest.raises(Refused, match=r"server a refused .*: column 0 is 'a'") as caught:
        world.robot()
    assert (caught.value.check, caught.value.reason) == (check, "column 0 is 'a'")


def test_each_replica_is_asked_once_before_a_refusal_is_final(world):
    servers = [world.server(name, rejection=rejection("cameras")) for name in "ab"]
    with pytest.raises(Refused):
        world.robot()
    assert [len(server.opens) for server in servers] == [1, 1]


def test_when_all_are_full_the_robot_learns_it_at_once(world):
    for name in "ab":
        world.server(name, rejection=rejection("capacity", "all 8 sessions are taken"))
    with pytest.raises(Refused, match="all 8 sessions are taken") as caught:
        world.robot(timeout_s=60)
    assert caught.value.check == "capacity"


@pytest.mark.parametrize("options", [{"draining": True}, {"rejection": rejection("draining")}])
def test_a_draining_server_takes_no_robot(world, options):
    world.server(**options)
    with pytest.raises(ServerDraining, match="try again when"):
        world.robot(timeout_s=60)


def test_a_server_that_never_answers(world):
    server = world.server(act=lambda request: None)
    policy = world.robot()
    with (
        hurried(policy, 0.3),
        pytest.raises(TimedOut, match=r"server a within 0\.3 s; .* sent 1 times .* alive"),
    ):
        policy.infer(observation())
    server.act = answer
    assert policy.infer(observation()).seq_id == 1


def test_nothing_was_sent_because_other_things_took_the_time(world, monkeypatch):
    def take_long(*_):
        threading.Event().wait(0.3)
        return "jpeg"

    world.server()
    policy = world.robot()
    monkeypatch.setattr(exchange.Exchange, "_faster_codec", take_long)
    with hurried(policy, 0.2), pytest.raises(TimedOut, match=r"image codec .* nothing was sent"):
        policy.infer(observation(image=True))


def test_no_search_takes_longer_than_the_call(world, monkeypatch):
    allowed = []

    def noted(transport, pattern, timeout_s):
        allowed.append(timeout_s)
        return discovery.ask_statuses(transport, pattern, timeout_s)

    monkeypatch.setattr(connection, "ask_statuses", noted)
    with pytest.raises(NoServer):
        world.robot(timeout_s=0.5)
    assert max(allowed) <= 0.5
    assert allowed[-1] < allowed[0]


def test_a_failed_request_also_tells_how_long_an_answer_takes(world):
    world.server(act=lambda request: threading.Timer(0.4, fail, (request,)).start())
    policy = world.robot()
    with pytest.raises(RequestRejected):
        policy.infer(observation())
    assert policy._resend_s > 1.0


def fail(request) -> None:
    request.event(wire.RequestFailed(seq_id=request.header.seq_id, reason="NaN in state"))


def test_a_request_that_the_server_cannot_answer(any_world):
    def fail_once(request):
        if once:
            fail(request)
        else:
            request.chunk()

    once = Once()
    any_world.server(act=fail_once)
    policy = any_world.robot()
    with pytest.raises(RequestRejected, match=r"could not answer .*: NaN in state") as caught:
        policy.infer(observation())
    assert caught.value.reason == "NaN in state"
    assert policy.infer(observation()).seq_id == 1


def test_a_replaced_process_does_not_take_its_place_back(any_world):
    server = any_world.server()
    first = any_world.robot()
    second = any_world.robot()
    with pytest.raises(Replaced, match="client_id 'arm'; give each process its own"):
        keep_asking(first)
    for _ in range(3):
        with pytest.raises(Replaced):
            first.infer(observation())
    assert second.infer(observation()).server == "a"
    assert len(server.opens) == 2
    first.close()
    assert second.infer(observation()).server == "a"


def test_an_error_does_not_keep_the_policy_alive(world):
    world.server()
    policy = RemotePolicy("test", "fold", client_id="arm", transport=world.network.node())
    world.robot()
    with suppress(Replaced):
        keep_asking(policy)
    with suppress(Replaced):
        policy.infer(observation())
    is_there = weakref.ref(policy)
    del policy
    assert is_there() is None


@pytest.mark.parametrize(
    "error", [Refused("fps", "30 is not 15", "refused"), RequestRejected("NaN", "rejected")]
)
def test_an_error_survives_the_way_to_another_process(error):
    again = pickle.loads(pickle.dumps(error))
    assert (str(again), again.reason) == (str(error), error.reason)


def test_a_restarted_process_takes_the_place_of_its_predecessor(any_world):
    server = any_world.server()
    before = any_world.robot()
    before.infer(observation())
    after = any_world.robot()
    assert after.infer(observation(2.0)).model[0, 0] == 6.0
    assert len(server.opens) == 2


def test_the_first_reason_for_a_closed_session_counts(world):
    def close_twice(request):
        request.event(wire.SessionClosed(reason="replaced by a newer session"))
        request.event(wire.SessionClosed(reason="there is no session; open one"))

    world.server(act=close_twice)
    with pytest.raises(Replaced):
        world.robot().infer(observation())


def test_another_checkpoint_after_a_restart_is_not_accepted_unasked(world):
    old = world.server()
    policy = world.robot()
    policy.infer(observation())
    old.close()
    new = world.server("b", digest="d2")
    with (
        hurried(policy, 0.5),
        pytest.raises(WrongModel, match=r"d2, pinned is d1: .* make a new RemotePolicy"),
    ):
        policy.infer(observation())
    assert new.opens == []
    world.server("b2")
    assert policy.infer(observation()).server == "b2"


@pytest.mark.parametrize("other", [{"digest": "d2"}, {"model": "lerobot/pi0"}], ids=str)
def test_beside_another_checkpoint_the_right_one_is_waited_for(world, other):
    old = world.server()
    policy = world.robot()
    old.close()
    world.server("other", **other)
    timer = threading.Timer(0.3, lambda: world.server("back"))
    timer.start()
    assert policy.infer(observation()).server == "back"
    timer.join()


def test_another_model_after_a_restart_needs_a_new_policy(world):
    old = world.server()
    policy = world.robot()
    old.close()
    world.server("other", model="lerobot/pi0")
    with hurried(policy, 0.3), pytest.raises(WrongModel, match="make a new RemotePolicy to accept"):
        policy.infer(observation())


def test_the_server_goes_and_none_comes(world):
    server = world.server()
    policy = world.robot()
    server.close()
    with hurried(policy, 0.4), pytest.raises(NoServer, match="service 'fold'"):
        policy.infer(observation())
    world.server("b")
    assert policy.infer(observation()).server == "b"
