"""Mailboxes that hold the newest request only, and one request at a time for each robot."""

import threading

import pytest

from lefleet.server.board import Board, Mail
from lefleet.server.scheduler import RoundRobin
from lefleet.server.session import Session
from lefleet_client import wire
from tests.server.samples import session_open


def session(name: str) -> Session:
    return Session(id=name, opened=session_open(client_id=name), pipeline=None, publisher=None)


def mail(seq_id: int, episode_id: int = 0) -> Mail:
    return Mail(wire.Header(wire.MessageType.OBSERVATION, seq_id, episode_id, 0), b"")


def board_of(*sessions: Session, ahead: int = 8) -> Board:
    board = Board(RoundRobin(), ahead)
    for one in sessions:
        board.add(one)
    return board


def answer_next(board: Board) -> tuple[str, int]:
    ticket = board.next_mail()
    board.put_prepared(ticket)
    assert board.next_prepared() is ticket
    board.end(ticket, was_prepared=True)
    return ticket.session.id, ticket.mail.header.seq_id


def test_only_the_newest_request_is_answered_and_the_others_are_counted():
    robot = session("a")
    board = board_of(robot)
    for seq_id in range(5):
        board.deposit(robot, mail(seq_id))
    assert answer_next(board) == ("a", 4)
    assert board.superseded(robot) == 4
    assert board.superseded(robot) == 0


def test_a_greedy_robot_gets_every_other_turn_and_no_more():
    greedy, modest = session("greedy"), session("modest")
    board = board_of(greedy, modest)
    grants = []
    for seq_id in range(20):
        for _ in range(10):
            board.deposit(greedy, mail(seq_id))
        board.deposit(modest, mail(seq_id))
        grants += [answer_next(board)[0], answer_next(board)[0]]
    assert grants.count("greedy") == grants.count("modest") == 20


def test_a_robot_has_one_request_under_way_at_most():
    first, other = session("a"), session("b")
    board = board_of(first, other)
    board.deposit(first, mail(1))
    ticket = board.next_mail()
    board.deposit(first, mail(2))
    board.deposit(other, mail(3))
    assert board.next_mail().session is other
    board.put_prepared(ticket)
    board.next_prepared()
    board.end(ticket, was_prepared=True)
    assert board.next_mail().mail.header.seq_id == 2


def test_only_so_much_is_prepared_ahead():
    robots = [session(name) for name in "abc"]
    board = board_of(*robots, ahead=1)
    for one in robots:
        board.deposit(one, mail(0))
    first = board.next_mail()
    taken = []
    waiting = threading.Thread(target=lambda: taken.append(board.next_mail()), daemon=True)
    waiting.start()
    board.put_prepared(first)
    assert not taken
    board.next_prepared()
    waiting.join(10)
    assert taken[0].session.id == "b"


@pytest.mark.parametrize("wait", [Board.next_mail, Board.next_prepared])
def test_closing_ends_every_wait(wait):
    board = board_of()
    ended = []
    thread = threading.Thread(target=lambda: ended.append(wait(board)), daemon=True)
    thread.start()
    board.close()
    thread.join(10)
    assert ended == [None]


def test_it_is_idle_when_nothing_waits_and_nothing_is_under_way():
    robot = session("a")
    board = board_of(robot)
    assert board.wait_idle(0)
    board.deposit(robot, mail(0))
    assert not board.wait_idle(0)
    ticket = board.next_mail()
    assert not board.wait_idle(0)
    board.end(ticket, was_prepared=False)
    assert board.wait_idle(0)


def test_a_removed_robot_leaves_nothing_behind():
    robot = session("a")
    board = board_of(robot)
    board.deposit(robot, mail(0))
    board.remove(robot)
    board.deposit(robot, mail(1))
    assert board.wait_idle(0)
    assert board.superseded(robot) == 0


def test_what_is_sent_again_is_neither_superseded_nor_answered_twice():
    robot = session("a")
    board = board_of(robot)
    for seq_id in (1, 1, 2, 2):
        board.deposit(robot, mail(seq_id))
    ticket = board.next_mail()
    board.deposit(robot, mail(2))
    assert ticket.mail.header.seq_id == 2
    board.end(ticket, was_prepared=False)
    assert board.wait_idle(0)
    assert board.superseded(robot) == 1


def test_the_same_number_in_another_episode_is_another_request():
    robot = session("a")
    board = board_of(robot)
    board.deposit(robot, mail(0))
    ticket = board.next_mail()
    board.deposit(robot, mail(0, episode_id=1))
    board.end(ticket, was_prepared=False)
    assert board.next_mail().mail.number == (1, 0)


def test_what_comes_late_is_past_while_the_newer_one_is_here():
    robot = session("a")
    board = board_of(robot)
    board.deposit(robot, mail(9))
    ticket = board.next_mail()
    board.deposit(robot, mail(8))
    board.end(ticket, was_prepared=False)
    assert board.wait_idle(0)
    assert board.superseded(robot) == 1
    board.deposit(robot, mail(1))
    assert answer_next(board) == ("a", 1)
