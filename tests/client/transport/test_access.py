"""Who may do what: passwords, and a router that forbids everything but lefleet's tree."""

import pytest

from lefleet_client.remote import NoServer, RemotePolicy
from lefleet_client.transport import CannotOpen, ZenohSettings, ZenohTransport, ask_one
from tests.client.remote.scripted import ScriptedServer, observation
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.waiting import LONG_S, Log

MESSAGES = [
    "put",
    "delete",
    "declare_subscriber",
    "query",
    "reply",
    "declare_queryable",
    "liveliness_token",
    "liveliness_query",
    "declare_liveliness_subscriber",
]
ONLY_LEFLEET = {
    "enabled": True,
    "default_permission": "deny",
    "rules": [
        {
            "id": "lefleet",
            "permission": "allow",
            "flows": ["ingress", "egress"],
            "messages": MESSAGES,
            "key_exprs": ["@lefleet/**"],
        }
    ],
    "subjects": [{"id": "all"}],
    "policies": [{"rules": ["lefleet"], "subjects": ["all"]}],
}


def password(user: str, secret: str) -> dict[str, str]:
    path = "transport/auth/usrpwd"
    return {f"{path}/user": user, f"{path}/password": secret}


@pytest.fixture
def strict_router():
    router = Router(FREE_PORT, access_control=ONLY_LEFLEET)
    yield router
    router.close()


@pytest.fixture
def guarded_router(tmp_path):
    users = tmp_path / "users.txt"
    users.write_text("arm:secret\n")
    router = Router(FREE_PORT, **{"transport/auth/usrpwd/dictionary_file": str(users)})
    yield router
    router.close()


def test_under_default_deny_robots_are_served(strict_router):
    with ZenohTransport.open(ZenohSettings(connect=(strict_router.endpoint,))) as node:
        server = ScriptedServer(node)
        with RemotePolicy(strict_router.endpoint, "fold", timeout_s=LONG_S) as policy:
            policy.reset()
            assert policy.infer(observation(image=True)).server == "a"
        assert len(server.resets) == len(server.closes) == 1


def test_under_default_deny_nothing_else_gets_through(strict_router):
    settings = ZenohSettings(connect=(strict_router.endpoint,))
    with ZenohTransport.open(settings) as one, ZenohTransport.open(settings) as other:
        log = Log()
        one.announce("elsewhere")
        one.serve("elsewhere/a", lambda question: b"heard")
        one.announce("@lefleet/ready")
        other.watch("@lefleet/*", log.add)
        other.watch("elsewhere", log.add)
        assert log.wait(len) == [("@lefleet/ready", True)]
        assert other.ask("elsewhere/a", b"", 0.2).replies == ()


def test_the_right_password_opens(guarded_router):
    settings = ZenohSettings(connect=(guarded_router.endpoint,), extra=password("arm", "secret"))
    with ZenohTransport.open(settings) as node:
        node.serve("a", lambda question: b"in")
        assert ask_one(node, "a", b"", LONG_S) == b"in"


@pytest.mark.parametrize("extra", [password("arm", "wrong"), {}], ids=["wrong", "none"])
def test_without_the_right_password_the_text_says_where_to_look(guarded_router, extra):
    settings = ZenohSettings(connect=(guarded_router.endpoint,), extra=extra, open_timeout_s=0.2)
    with pytest.raises(CannotOpen, match="address, password and certificates"):
        ZenohTransport.open(settings)
    with pytest.raises(NoServer, match="password"):
        RemotePolicy(guarded_router.endpoint, "fold", zenoh_extra=extra, connect_timeout_s=0.2)


def test_a_robot_hands_its_password_on(guarded_router):
    extra = password("arm", "secret")
    settings = ZenohSettings(connect=(guarded_router.endpoint,), extra=extra)
    with ZenohTransport.open(settings) as node:
        ScriptedServer(node)
        with RemotePolicy(guarded_router.endpoint, "fold", zenoh_extra=extra) as policy:
            assert policy.infer(observation()).server == "a"
