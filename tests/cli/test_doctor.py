"""Is this machine ready?"""

import json
import sys
from importlib.metadata import version

import msgspec
import pytest

from lefleet.cli import doctor, main
from lefleet.cli.commands import DoctorCommand
from lefleet.cli.doctor import (
    _graphics,
    _hub,
    _package,
    _pinned,
    _python,
    _threads,
    gpu_check,
    run_doctor,
)
from lefleet.devices.report import DeviceReport, FoundDevice
from lefleet.errors import BadInput
from lefleet.sim.render import OFF

NAMES = ["python", "lerobot", "mujoco", "graphics", "gpu", "cores", "threads", "disk"]
NOTHING = DeviceReport(wanted="auto", device="cpu", torch="2.11", built_for="CUDA 13.0")


@pytest.fixture
def no_graphics(monkeypatch):
    """Asking the graphics library for a frame takes seconds, and so does asking PyTorch for a
    product; the answers do not matter here."""
    monkeypatch.setattr(doctor, "probe", lambda _: NOTHING)
    monkeypatch.setattr(
        doctor, "_graphics", lambda: doctor.CheckResult(name="graphics", state="ok", found="egl")
    )


def test_doctor_as_json_is_a_list_of_checks(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["lefleet", "doctor", "--offline", "--json"])
    main()
    checks = json.loads(capsys.readouterr().out)
    assert [check["name"] for check in checks] == NAMES
    assert {tuple(check) for check in checks} == {("name", "state", "found", "remedy")}
    assert {check["state"] for check in checks} <= {"ok", "warning", "problem"}


def test_what_is_not_ok_has_a_remedy(monkeypatch, capsys, no_graphics):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    run_doctor(DoctorCommand(offline=True, json=True))
    checks = json.loads(capsys.readouterr().out)
    assert "warning" in [check["state"] for check in checks]
    for check in checks:
        assert bool(check["remedy"]) == (check["state"] != "ok"), check["name"]


def test_a_person_gets_a_line_per_check_and_one_per_remedy(monkeypatch, capsys, no_graphics):
    monkeypatch.setenv("OMP_NUM_THREADS", "4")
    run_doctor(DoctorCommand(offline=True))
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[1] for line in lines if "->" not in line] == NAMES
    assert any("-> Run: unset OMP_NUM_THREADS" in line for line in lines)


def test_a_problem_exits_1_and_a_warning_0(monkeypatch, no_graphics, capsys):
    monkeypatch.setattr(doctor, "_threads", lambda: _package("no-such-package", ()))
    assert run_doctor(DoctorCommand(offline=True)) == 1
    monkeypatch.setattr(
        doctor,
        "_threads",
        lambda: doctor.CheckResult(name="x", state="warning", found="y", remedy="z"),
    )
    assert run_doctor(DoctorCommand(offline=True)) == 0


def test_a_package_that_is_missing_is_a_problem():
    check = _package("no-such-package", ("1.0",))
    assert (check.state, check.found) == ("problem", "not installed")


def test_a_package_of_a_tested_version_is_ok():
    assert _package("msgspec", ("0.1", version("msgspec"))).state == "ok"


def test_a_package_of_another_version_works_perhaps():
    check = _package("msgspec", ("0.1",))
    assert check.state == "warning"
    assert check.found == f"{version('msgspec')}, tested with 0.1"
    assert check.remedy == "Run: pip install msgspec==0.1"


def test_the_physics_is_pinned_to_one_version():
    assert len(_pinned("mujoco")) == 1


def test_this_python_is_the_right_one():
    assert _python().state == "ok"


@pytest.mark.parametrize(("setting", "state"), [(None, "ok"), ("1", "ok"), ("8", "warning")])
def test_many_threads_are_a_warning(monkeypatch, setting, state):
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    if setting:
        monkeypatch.setenv("OMP_NUM_THREADS", setting)
    assert _threads().state == state


def test_a_hub_that_the_user_turned_off_is_not_contacted(monkeypatch):
    monkeypatch.setenv("HF_HUB_OFFLINE", "1")
    assert _hub().found == "not contacted: HF_HUB_OFFLINE is set"


def test_a_hub_that_does_not_answer_is_a_warning(monkeypatch, tmp_path):
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    monkeypatch.setenv("HF_ENDPOINT", f"file://{tmp_path}/nothing")
    check = _hub()
    assert check.state == "warning"
    assert "does not answer" in check.found


def test_without_graphics_videos_are_missing_but_the_rest_works(monkeypatch):
    monkeypatch.setenv("MUJOCO_GL", OFF)
    check = _graphics()
    assert check.state == "warning"
    assert check.found.startswith("no videos, no cameras: ")
    assert "apt-get install" in check.remedy


def test_a_systemd_unit_names_the_work_folder_and_this_python(tmp_path, capsys):
    assert run_doctor(DoctorCommand(systemd=tmp_path)) == 0
    unit = capsys.readouterr().out
    start = f'ExecStart="{sys.executable}" -m lefleet resume --all --workdir "{tmp_path}"\n'
    assert start in unit
    assert "KillMode=process" in unit


def test_a_path_that_systemd_would_misread_is_refused(tmp_path):
    with pytest.raises(BadInput, match="systemd"):
        run_doctor(DoctorCommand(systemd=tmp_path / "100%"))


def test_a_machine_without_a_gpu_is_fine():
    check = gpu_check(NOTHING)
    assert check.state == "ok"
    assert check.found == ("none, so auto is the CPU; no NVIDIA driver, PyTorch 2.11 for CUDA 13.0")


def test_a_gpu_is_named_with_its_memory_driver_and_build():
    card = FoundDevice(
        name="cuda:0", title="RTX 4090", memory_bytes=24 * 10**9, free_bytes=23 * 10**9
    )
    report = msgspec.structs.replace(
        NOTHING, device="cuda", devices=(card,), driver="570.86", matmul_ms=0.04
    )
    check = gpu_check(report)
    assert (check.state, check.remedy) == ("ok", "")
    assert check.found == (
        "cuda:0 (RTX 4090, 24 GB) with 23.0 GB free; cuda computes (0.04 ms for a small product); "
        "NVIDIA driver 570.86, PyTorch 2.11 for CUDA 13.0"
    )


def test_a_gpu_that_does_not_work_is_a_problem_with_its_reason():
    report = msgspec.structs.replace(NOTHING, device="", problem="it hangs", driver="470.1")
    check = gpu_check(report)
    assert check.state == "problem"
    assert check.found == "it hangs; NVIDIA driver 470.1, PyTorch 2.11 for CUDA 13.0"
    assert "device: cpu works" in check.remedy


def test_a_pytorch_that_cannot_be_imported_is_installed_anew():
    check = gpu_check(DeviceReport(wanted="auto", problem="PyTorch cannot be imported: x"))
    assert (check.state, "make" in check.remedy) == ("problem", True)


def test_with_a_config_doctor_says_whether_its_run_could_begin(
    no_graphics, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "mine.yaml"
    file.write_text("name: mine\nladder: [{name: act}]\ncollect: {source: dataset, root: /none}\n")
    command = DoctorCommand(offline=True, config=file, json=True)
    assert run_doctor(command, ["--tasks=[push]"]) == 1
    checks = {one["name"]: one for one in json.loads(capsys.readouterr().out)}
    assert checks["device"]["state"] == "ok"
    assert checks["collect.root"]["state"] == "problem"
    assert checks["collect.root"]["remedy"] == "Name the folder of a LeRobotDataset."


def test_a_config_is_needed_to_override_its_fields():
    with pytest.raises(BadInput, match="there is no config to override"):
        run_doctor(DoctorCommand(offline=True), ["--device=cpu"])
