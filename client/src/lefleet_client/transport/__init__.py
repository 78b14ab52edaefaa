"""How bytes get from a robot to a policy server and back: one small seam, with Zenoh behind it.

    errors           what can go wrong with a network
    seam             what a transport does, and which threads call whom
    settings         how to open a Zenoh session
    identity         role, name and end of a certificate
    zenoh_transport  the seam over Zenoh
    declarations     what is declared there until it is closed, and key expressions
    exit             closes what a program forgot; no thread is inside Zenoh when Python ends

Bytes come from `wire` and from captures, and arrive in callbacks that only store them. Keys and
bytes mean nothing here. Imports zenoh, msgspec and the limits of `wire`; servers and edges may
import it. `lefleet_client.testing` has the same seam inside one process.

    with ZenohTransport.open(ZenohSettings(connect=("tcp/127.0.0.1:7447",))) as transport:
        transport.subscribe(keys.action, chunks.put)
        transport.publisher(keys.obs, OBSERVATION).put(body, header)
        sample = chunks.get(timeout=1.0)
"""

from lefleet_client.transport.errors import (
    AnswerFailed,
    BadExpression,
    BadSettings,
    CannotListen,
    CannotOpen,
    Closed,
    Forked,
    NoAnswer,
    ThreadsEnded,
    TransportError,
    ZenohFailed,
)
from lefleet_client.transport.exit import CloseAtExit
from lefleet_client.transport.identity import (
    CertificateIdentity,
    certificate_identity,
    certified_name,
    tls_warnings,
)
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
from lefleet_client.transport.settings import Tls, ZenohSettings, require_usable
from lefleet_client.transport.zenoh_transport import ZenohTransport

__all__ = [
    "ACTION",
    "OBSERVATION",
    "AnswerFailed",
    "Answers",
    "BadExpression",
    "BadSettings",
    "CannotListen",
    "CannotOpen",
    "CertificateIdentity",
    "CloseAtExit",
    "Closed",
    "Declared",
    "Forked",
    "NoAnswer",
    "Publisher",
    "Qos",
    "Question",
    "Reply",
    "Sample",
    "ThreadsEnded",
    "Tls",
    "Transport",
    "TransportError",
    "ZenohFailed",
    "ZenohSettings",
    "ZenohTransport",
    "ask_one",
    "certificate_identity",
    "certified_name",
    "is_gone",
    "require_usable",
    "tls_warnings",
]
