"""What the client's README promises."""

import re
from pathlib import Path

import numpy as np

from lefleet_client import remote
from tests.client.remote.conftest import folder_of
from tests.client.remote.scripted import STEPS, observation

README = Path(__file__).parents[3] / "client" / "README.md"


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_the_first_example_runs(encrypted, authority, tmp_path, monkeypatch):
    folder_of(tmp_path / "certs" / "robot-arm-7", authority, "robot-arm-7")
    monkeypatch.chdir(tmp_path)
    code = blocks()[0].replace("tls/10.0.0.5:7447", encrypted.endpoint)
    state, rgb = observation(image=True).values()
    names: dict[str, object] = {"state": state, "rgb": rgb}
    exec(code, names)
    np.testing.assert_array_equal(names["robot_actions"], np.full((STEPS, 2), 6))
    assert [one.client_id for one in encrypted.opens] == ["arm-7"]


def test_the_robots_features_can_be_written_so():
    names: dict[str, object] = {}
    exec(blocks()[1], names)
    assert isinstance(names["robot"], remote.RobotFeatures)


def test_every_error_is_in_the_table():
    exported = [getattr(remote, name) for name in remote.__all__]
    errors = {
        one.__name__
        for one in exported
        if isinstance(one, type) and issubclass(one, remote.RemoteError)
    }
    listed = set(re.findall(r"^\| `(\w+)` \|", README.read_text(), re.MULTILINE))
    assert listed == errors - {"RemoteError"}
