"""Networks with scripted servers, and robots that ask them."""

from datetime import UTC, datetime, timedelta

import pytest
import trustme

from lefleet_client.remote import RemotePolicy
from lefleet_client.transport import Tls, ZenohSettings, ZenohTransport
from tests.client.remote.scripted import ScriptedServer
from tests.client.transport.networks import InMemory, OverRouter, Router


class World:
    """Servers and robots on one network; a test closes none of them."""

    def __init__(self, network) -> None:
        self.network = network
        self._policies = []

    def server(self, name="a", **options) -> ScriptedServer:
        return ScriptedServer(self.network.node(), name, **options)

    def robot(self, service="fold", **options) -> RemotePolicy:
        options = {"client_id": "arm", "timeout_s": 10.0, **options}
        policy = RemotePolicy("test", service, transport=self.network.node(), **options)
        self._policies.append(policy)
        return policy

    def close(self) -> None:
        for policy in self._policies:
            policy.close()
        self.network.close()


@pytest.fixture
def world():
    """In memory: quick, and nothing is lost."""
    world = World(InMemory())
    yield world
    world.close()


@pytest.fixture(params=[InMemory, OverRouter], ids=lambda kind: kind.__name__)
def any_world(request):
    world = World(request.param())
    yield world
    world.close()


@pytest.fixture(scope="session")
def authority():
    return trustme.CA()


def folder_of(path, authority, common_name, days=365):
    """A folder as `lefleet certs` makes it."""
    path.mkdir(parents=True)
    own = authority.issue_cert(
        "127.0.0.1",
        common_name=common_name,
        not_after=datetime.now(UTC) + timedelta(days=days),
    )
    authority.cert_pem.write_to_path(path / "ca.pem")
    own.private_key_pem.write_to_path(path / "key.pem")
    own.cert_chain_pems[0].write_to_path(path / "cert.pem")
    return path


@pytest.fixture
def encrypted(tmp_path, authority):
    """A server behind a router, both with certificates."""
    tls = Tls.folder(folder_of(tmp_path / "gpu", authority, "server-gpu"))
    router = Router("tls/127.0.0.1:0", tls)
    with ZenohTransport.open(ZenohSettings(connect=(router.endpoint,), tls=tls)) as node:
        server = ScriptedServer(node)
        server.endpoint = router.endpoint
        yield server
    router.close()
