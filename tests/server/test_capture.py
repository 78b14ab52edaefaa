"""The ring of captures: bounded, whole files only, and never in the way of the server."""

import os
import re
import threading

import msgspec
import pytest

from lefleet.errors import BadInput
from lefleet.policy.settings import ModelSettings, RtcSettings
from lefleet.server.capture import Captured, CapturedModel, CaptureRing, read_captures
from lefleet.server.manifest import CaptureSettings, load_manifest
from tests.client.transport.waiting import LONG_S
from tests.server.samples import CAPTURED as REQUEST

POLICY = CapturedModel(model=ModelSettings(repo_or_path="a/b"), rtc=RtcSettings())


def ring_in(folder, limit: int, max_mb: int = 2000) -> CaptureRing:
    return CaptureRing(CaptureSettings(dir=str(folder), max=limit, max_mb=max_mb), POLICY)


def fill(folder, limit: int, seeds: range) -> None:
    with ring_in(folder, limit) as ring:
        for seed in seeds:
            ring.record(msgspec.structs.replace(REQUEST, seed=seed))
    assert ring.skipped == 0


def kept(folder) -> list[int]:
    return [capture.request.seed for _, capture in read_captures(folder)]


def test_what_is_captured_is_read_back(tmp_path):
    with ring_in(tmp_path / "new" / "ring", 3) as ring:
        ring.record(REQUEST)
    ((name, capture),) = read_captures(tmp_path / "new" / "ring")
    assert (name, capture.policy, capture.request) == ("0000000000", POLICY, REQUEST)


def test_only_the_newest_are_kept(tmp_path):
    fill(tmp_path, 3, range(8))
    assert kept(tmp_path) == [5, 6, 7]
    assert sorted(path.suffix for path in tmp_path.iterdir()) == [".capture"] * 3 + [".lock"]


def test_numbers_go_on_after_a_restart_and_a_smaller_ring_forgets_more(tmp_path):
    fill(tmp_path, 5, range(5))
    fill(tmp_path, 2, range(5, 6))
    assert kept(tmp_path) == [4, 5]
    assert [name for name, _ in read_captures(tmp_path)] == ["0000000004", "0000000005"]


def large(seed: int, size: int) -> Captured:
    return msgspec.structs.replace(REQUEST, seed=seed, observation=bytes(size))


def test_large_requests_leave_room_for_fewer(tmp_path):
    with ring_in(tmp_path, 100, max_mb=1) as ring:
        for seed, size in enumerate((300_000, 300_000, 300_000, 50_000, 600_000)):
            ring.record(large(seed, size))
    assert ring.skipped == 0
    assert kept(tmp_path) == [2, 3, 4]


def test_what_was_there_before_a_restart_counts(tmp_path):
    for seed in range(3):
        with ring_in(tmp_path, 100, max_mb=1) as ring:
            ring.record(large(seed, 400_000))
    assert kept(tmp_path) == [1, 2]


def test_a_request_that_is_larger_than_the_ring_costs_no_other(tmp_path, caplog):
    with ring_in(tmp_path, 100, max_mb=1) as ring:
        ring.record(large(0, 10))
        ring.record(large(1, 1_000_000))
        ring.record(large(2, 10))
    assert ring.skipped == 1
    assert kept(tmp_path) == [0, 2]
    assert "capture.max_mb: " in caplog.text


def test_what_a_killed_server_left_half_written_is_removed(tmp_path):
    fill(tmp_path, 5, range(2))
    (tmp_path / "0000000002.part").write_bytes(b"half")
    fill(tmp_path, 5, range(2, 3))
    assert kept(tmp_path) == [0, 1, 2]
    assert list(tmp_path.glob("*.part")) == []


@pytest.mark.parametrize("name", ["notes.txt", "1.capture", "0000000001.json", "photo.part"])
def test_a_folder_with_something_else_is_left_alone(tmp_path, name):
    (tmp_path / name).write_text("mine")
    with pytest.raises(BadInput, match=rf"capture\.dir: .*{name}"):
        ring_in(tmp_path, 3)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_two_servers_do_not_share_a_folder(tmp_path):
    with (
        ring_in(tmp_path, 3),
        pytest.raises(BadInput, match="another server captures"),
    ):
        ring_in(tmp_path, 3)
    ring_in(tmp_path, 3).close()


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(BadInput, match=r"capture\.dir: "):
        ring_in(tmp_path / "file", 3)


def test_a_slow_disk_costs_captures_and_never_the_servers_time(tmp_path, monkeypatch):
    started, may_go = threading.Event(), threading.Event()
    write = CaptureRing._write

    def slow(ring: CaptureRing, captured: Captured) -> None:
        started.set()
        may_go.wait(LONG_S)
        write(ring, captured)

    monkeypatch.setattr(CaptureRing, "_write", slow)
    with ring_in(tmp_path, 100) as ring:
        ring.record(REQUEST)
        assert started.wait(LONG_S)
        for _ in range(30):
            ring.record(REQUEST)
        assert ring.skipped == 14, "one is being written, sixteen wait"
        may_go.set()
    assert len(kept(tmp_path)) == 17


def test_a_disk_that_fails_is_counted(tmp_path, monkeypatch, caplog):
    folder = tmp_path / "ring"
    with ring_in(folder, 3) as ring:
        monkeypatch.setattr("pathlib.Path.write_bytes", _no_space)
        ring.record(REQUEST)
        ring.record(REQUEST)
    assert ring.skipped == 2
    assert caplog.text.count("No space left") == 1


def _no_space(path, data):
    raise OSError(28, "No space left on device")


def test_a_missing_folder_and_a_broken_file_are_named(tmp_path):
    with pytest.raises(BadInput, match="does not exist"):
        list(read_captures(tmp_path / "none"))
    (tmp_path / "0000000007.capture").write_bytes(b"\x01")
    with pytest.raises(BadInput, match=r"0000000007\.capture"):
        list(read_captures(tmp_path))


def test_nothing_secret_of_a_manifest_is_captured(tmp_path):
    manifest = load_manifest(
        None,
        [
            "--model={repo_or_path: a/b, device: cuda}",
            "--trust_order=true",
            "--zenoh.extra={transport/auth/usrpwd/password: hunter2}",
        ],
    )
    policy = CapturedModel.of(manifest)
    assert policy.model.device == "cuda"
    assert policy.trust_order
    assert b"hunter2" not in msgspec.msgpack.encode(policy)


def test_folders_are_found_from_wherever_captures_are_replayed(tmp_path, monkeypatch):
    for name in ("policy", "adapter"):
        (tmp_path / name).mkdir()
    monkeypatch.chdir(tmp_path)
    model = CapturedModel.of(load_manifest(None, ["--model={repo_or_path: policy, peft: adapter}"]))
    assert model.model.repo_or_path == str(tmp_path / "policy")
    assert model.model.peft == str(tmp_path / "adapter")


def test_a_hub_id_stays_one():
    model = CapturedModel.of(load_manifest(None, ["--model.repo_or_path=user/policy"])).model
    assert model == ModelSettings(repo_or_path="user/policy")


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"", "it is not a capture: it is cut off"),
        (b"\xc1", "it is not a capture: it has an item"),
        (b"\x80", "it is not a capture: Object missing required field `policy`"),
        (
            b"\x82\xa6format\x01\xa6format\x01",
            "it is not a capture: it has the key b'format' twice",
        ),
        (b"\xdf\xff\xff\xff\xff", "it is not a capture: it has more than "),
        (b"\xd9\xff", "it is not a capture: it is cut off"),
        (b"\xa1\xff", "it is not a capture: "),
        (b"\x81\xa6format\x02", "it is not a capture: Invalid"),
        (b"\x81" + b"\x81" * 60, "it is not a capture: "),
    ],
)
def test_a_file_that_is_no_capture_is_bad_input(tmp_path, content, problem):
    (tmp_path / "0000000000.capture").write_bytes(content)
    with pytest.raises(BadInput, match=re.escape(problem)) as caught:
        kept(tmp_path)
    assert "0000000000.capture: " in str(caught.value)


def test_every_cut_of_a_capture_is_bad_input(tmp_path):
    fill(tmp_path, 1, range(1))
    path = tmp_path / "0000000000.capture"
    whole = path.read_bytes()
    for length in range(0, len(whole), 7):
        path.write_bytes(whole[:length])
        with pytest.raises(BadInput, match=r"0000000000\.capture"):
            kept(tmp_path)


def test_a_huge_file_is_refused_and_not_read(tmp_path):
    with (tmp_path / "0000000000.capture").open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(BadInput, match=r"0000000000\.capture: .* bytes, above \d+"):
        kept(tmp_path)


def test_only_files_are_captures(tmp_path):
    os.mkfifo(tmp_path / "0000000000.capture")
    (tmp_path / "0000000001.capture").mkdir()
    assert kept(tmp_path) == []


def test_a_seed_that_no_policy_takes_is_bad_input(tmp_path):
    request = msgspec.structs.replace(REQUEST, seed=-1)
    content = msgspec.msgpack.encode({"policy": POLICY, "request": request})
    (tmp_path / "0000000000.capture").write_bytes(content)
    with pytest.raises(BadInput, match=r"request\.seed"):
        kept(tmp_path)
