"""Robots with certificates go by the name in them, and say when a link is open to others."""

import pytest

from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import BadSettings, ZenohSettings, ZenohTransport
from tests.client.remote.conftest import folder_of
from tests.client.remote.scripted import ScriptedServer, observation
from tests.client.transport.networks import FREE_PORT, Router
from tests.client.transport.waiting import LONG_S


def robot(endpoint, **options):
    return RemotePolicy(endpoint, "fold", timeout_s=LONG_S, connect_timeout_s=LONG_S, **options)


@pytest.mark.parametrize("as_text", [True, False])
def test_the_name_in_the_certificate_is_the_client_id(encrypted, tmp_path, authority, as_text):
    folder = folder_of(tmp_path / "arm", authority, "robot-arm-7")
    with robot(encrypted.endpoint, tls=str(folder) if as_text else folder) as policy:
        policy.infer(observation())
    assert [one.client_id for one in encrypted.opens] == ["arm-7"]


def test_a_certificate_of_another_authority_leaves_the_name_free(encrypted, tmp_path, authority):
    folder = folder_of(tmp_path / "arm", authority, "our own name")
    with robot(encrypted.endpoint, tls=folder, client_id="left"):
        assert encrypted.opens[0].client_id == "left"


@pytest.mark.parametrize(
    ("common_name", "text"),
    [
        ("robot-arm-7", r"^client_id: 'left' is not the name in the certificate, 'arm-7'"),
        ("server-left", r"^tls\.cert: .* is the certificate of server-left"),
    ],
)
def test_the_name_or_role_of_another_is_refused(tmp_path, authority, common_name, text):
    folder = folder_of(tmp_path / "arm", authority, common_name)
    with pytest.raises(BadSettings, match=text):
        robot("tls/127.0.0.1:1", tls=folder, client_id="left")


def test_a_certificate_that_ends_soon_is_in_the_log(encrypted, tmp_path, authority, caplog):
    folder = folder_of(tmp_path / "arm", authority, "robot-arm-7", days=10)
    robot(encrypted.endpoint, tls=folder).close()
    assert caplog.text.count("the certificate robot-arm-7 ends on ") == 1
    assert "lefleet certs renew arm-7" in caplog.text


def test_a_link_that_others_can_read_is_asked_for_and_said_in_each_session(caplog):
    router = Router(FREE_PORT)
    open_endpoint = router.endpoint.replace("127.0.0.1", "0.0.0.0")
    with ZenohTransport.open(ZenohSettings(connect=(router.endpoint,))) as node:
        server = ScriptedServer(node)
        with pytest.raises(BadSettings, match="insecure"):
            robot(open_endpoint)
        with robot(open_endpoint, insecure=True) as policy:
            policy.infer(observation())
            server.forget()
            policy.infer(observation())
        assert len(server.opens) == 2
        assert caplog.text.count("server a: insecure: anybody on its network") == 2
        caplog.clear()
        robot(router.endpoint).close()
        assert "insecure" not in caplog.text
    router.close()
