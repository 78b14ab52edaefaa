"""The end of a program: what it forgot is closed, and no thread is inside Zenoh by then."""

import gc
import sys
import threading

import pytest

from lefleet_client.transport import CloseAtExit
from tests.client.remote.scripted import ScriptedServer
from tests.client.transport.networks import OverRouter
from tests.client.transport.programs import python, run, run_in_loops
from tests.client.transport.waiting import LONG_S, Log

OPEN = f"""
import threading
from lefleet_client import RemoteError, RemotePolicy
def opened():
    return RemotePolicy("ENDPOINT", "fold", timeout_s={LONG_S})
def ask(policy):
    return float(policy.infer({{"observation.state": [1, 2, 3]}}).robot[0, 0])
"""
PROGRAMS = {
    "closed in a function": """
def main():
    with opened() as policy:
        ask(policy)
main()
""",
    "forgotten in a function": """
def main():
    ask(opened())
main()
""",
    "forgotten in a module": """
policy = opened()
ask(policy)
""",
    "asking in a daemon thread": """
has_begun = threading.Event()
def main():
    policy = opened()
    while True:
        ask(policy)
        has_begun.set()
threading.Thread(target=main, daemon=True).start()
has_begun.wait()
""",
}


@pytest.fixture
def network():
    network = OverRouter()
    yield network
    network.close()


@pytest.fixture
def server(network):
    return ScriptedServer(network.node())


def program(network, code: str) -> list[str]:
    return python(OPEN.replace("ENDPOINT", network.router.endpoint) + code)


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_program_ends_without_an_abort_and_leaves_its_session(network, server, name):
    runs = 20 if name == "closed in a function" else 3
    assert run_in_loops(program(network, PROGRAMS[name]), runs) == {(0, "")}
    server.closes.wait(lambda closes: len(closes) == len(server.opens))


@pytest.mark.chaos
@pytest.mark.parametrize("name", PROGRAMS)
def test_no_program_of_five_hundred_aborts(network, server, name):
    assert run_in_loops(program(network, PROGRAMS[name]), 500) == {(0, "")}


def test_a_policy_stays_open_until_the_last_non_daemon_thread_has_ended(network, server):
    code = """
policy = opened()
def work():
    threading.main_thread().join()
    print([ask(policy) for _ in range(3)])
threading.Thread(target=work).start()
"""
    child = run(program(network, code))
    assert (child.returncode, child.stdout) == (0, "[12.0, 12.0, 12.0]\n")
    assert len(server.closes) == 1


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python still starts threads then")
def test_what_needs_a_thread_after_the_main_thread_has_ended_names_the_remedy(network, server):
    code = """
def work():
    threading.main_thread().join()
    try:
        opened()
    except RemoteError as error:
        print(error)
threading.Thread(target=work).start()
"""
    child = run(program(network, code))
    assert child.returncode == 0
    assert "the main thread has ended" in child.stdout
    assert "join()" in child.stdout


def test_what_is_open_is_closed_last_first_and_one_that_fails_stops_no_other():
    code = """
from lefleet_client.transport import CloseAtExit
CloseAtExit(lambda: print("first"))
CloseAtExit(lambda: 1 / 0)
CloseAtExit(lambda: print("cancelled")).cancel()
CloseAtExit(lambda: print("last"))
print("main")
"""
    child = run(python(code))
    assert (child.returncode, child.stdout) == (0, "main\nlast\nfirst\n")
    assert "ZeroDivisionError" in child.stderr


class Owner:
    """Something that can be forgotten."""


def test_what_is_garbage_is_closed_by_a_thread_that_python_waits_for():
    log, owner = Log(), Owner()
    at_exit = CloseAtExit(lambda: log.add(threading.current_thread().daemon), owner)
    del owner
    gc.collect()
    assert log.wait(len) == [False]
    at_exit.cancel()


def test_what_was_closed_is_not_closed_again_when_it_is_garbage():
    log, closed, witness = Log(), Owner(), Owner()
    CloseAtExit(lambda: log.add("closed"), closed).cancel()
    at_exit = CloseAtExit(lambda: log.add("witness"), witness)
    del closed, witness
    gc.collect()
    assert log.wait(len) == ["witness"]
    at_exit.cancel()
