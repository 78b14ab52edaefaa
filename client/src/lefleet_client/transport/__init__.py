"""How bytes get from a robot to a policy server and back: one small seam, two networks behind it.

    errors        what can go wrong with a network
    seam          what a transport does, and which threads call whom
    slot          a mailbox that holds only the newest item
    settings      how to open a Zenoh session
    expressions   keys and key expressions
    zenoh_node    the seam over Zenoh
    declarations  what is declared there, until it is closed
    memory        the same seam inside one process, for unit tests
    gathering     the answers to one question in memory, for a bounded time
    ending        closes what a program forgot
    callbacks     callbacks of others, kept from doing harm
    lane          the thread behind each declaration in memory

Bytes come from `wire` and from captures, and arrive in callbacks that only deposit. Keys and bytes
mean nothing here. Imports zenoh, msgspec and the limits of `wire`; servers and edges may import it.

    with ZenohTransport.open(ZenohSettings(connect=("tcp/10.0.0.5:7447",))) as transport:
        newest: Slot[Sample] = Slot()
        transport.subscribe(keys.action, newest.put)
        transport.publisher(keys.obs, OBSERVATION).put(body, header)
        answer = newest.take(timeout_s=1.0)
"""

from lefleet_client.transport.errors import (
    AnswerFailed,
    BadExpression,
    BadSettings,
    CannotOpen,
    Closed,
    Forked,
    NoAnswer,
    TransportError,
)
from lefleet_client.transport.memory import MemoryNetwork, MemoryTransport
from lefleet_client.transport.seam import (
    ACTION,
    OBSERVATION,
    Answers,
    Declared,
    Publisher,
    Qos,
    Question,
    Reply,
    Sample,
    Transport,
    ask_one,
    is_gone,
)
from lefleet_client.transport.settings import Tls, ZenohSettings
from lefleet_client.transport.slot import Slot
from lefleet_client.transport.zenoh_node import ZenohTransport

__all__ = [
    "ACTION",
    "OBSERVATION",
    "AnswerFailed",
    "Answers",
    "BadExpression",
    "BadSettings",
    "CannotOpen",
    "Closed",
    "Declared",
    "Forked",
    "MemoryNetwork",
    "MemoryTransport",
    "NoAnswer",
    "Publisher",
    "Qos",
    "Question",
    "Reply",
    "Sample",
    "Slot",
    "Tls",
    "Transport",
    "TransportError",
    "ZenohSettings",
    "ZenohTransport",
    "ask_one",
    "is_gone",
]
