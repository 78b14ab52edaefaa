"""What an operator reads when a server is ready: the names that robots find it by."""

import pytest

from lefleet.cli.served import served_fields, served_text
from tests.policy import tiny
from tests.server.serving import Bench, loaded, manifest_of


@pytest.fixture(scope="module")
def said(tmp_path_factory):
    folder = tiny.act_environment(tmp_path_factory.mktemp("served") / "folded")
    policy = loaded(folder, serving_mode="exclusive")
    with Bench(folder, policy) as bench:
        return policy, manifest_of(folder), bench.service.status(), ""


def test_a_program_reads_the_names_in_the_keys(said):
    policy, _, status, _ = said
    fields = served_fields(*said)
    assert fields["revision"] == policy.digest[:12]
    served = status.capabilities
    assert (fields["model"], fields["revision"]) == (served.model, served.revision)
    assert (fields["service"], fields["server"]) == (status.service, status.server)
    assert fields["max_sessions"] == 1


def test_a_person_reads_them_too(said):
    policy, _, status, _ = said
    title, model, *rest = served_text(*said).splitlines()
    assert title == f"Service test on server {status.server}"
    assert model.split(maxsplit=1)[1] == f"folded (act, revision {policy.digest[:12]})"
    assert "  robots      up to 1" in rest
