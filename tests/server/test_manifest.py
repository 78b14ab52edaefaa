"""What to serve, and how: the file, overrides, names, and what is wrong with them."""

from datetime import UTC, datetime

import msgspec
import pytest

from lefleet.certs.authority import Authority
from lefleet.errors import BadInput
from lefleet.policy.settings import ContractOverride, ModelSettings, RtcSettings
from lefleet.server.manifest import (
    LISTEN,
    CaptureSettings,
    Manifest,
    load_manifest,
    manifest_of,
    model_label,
    service_label,
)
from lefleet_client.transport import Tls, ZenohSettings

MODEL = "--model.repo_or_path=user/policy"


def test_the_model_is_all_that_must_be_given():
    manifest = load_manifest(None, [MODEL])
    assert manifest.model == ModelSettings(repo_or_path="user/policy")
    assert manifest.zenoh == ZenohSettings(mode="peer", listen=(LISTEN,))
    assert (manifest.http_host, manifest.http_port, manifest.capture) == ("127.0.0.1", 0, None)


def test_a_file_is_read_and_overrides_go_on_top(tmp_path):
    path = tmp_path / "serve.yaml"
    path.write_text("model: {repo_or_path: a/b, device: cuda}\nmax_sessions: 4\ncapture:\n")
    manifest = load_manifest(path, ["--model.device=cpu", "--capture.dir=ring"])
    assert manifest.model == ModelSettings(repo_or_path="a/b", device="cpu")
    assert manifest.max_sessions == 4
    assert manifest.capture == CaptureSettings(dir="ring")


def test_the_example_in_the_repository_says_every_field_and_its_default(pytestconfig):
    manifest = load_manifest(pytestconfig.rootpath / "configs" / "serve.yaml")
    default = load_manifest(None, [f"--model.repo_or_path={manifest.model.repo_or_path}"])
    for field in msgspec.structs.fields(Manifest):
        if field.name not in ("server_name", "capture", "contract"):
            assert getattr(manifest, field.name) == getattr(default, field.name), field.name
    text = (pytestconfig.rootpath / "configs" / "serve.yaml").read_text()
    for kind in (Manifest, ModelSettings, ContractOverride, RtcSettings, CaptureSettings):
        for field in msgspec.structs.fields(kind):
            assert f"{field.name}:" in text, field.name


@pytest.mark.parametrize(
    ("override", "words"),
    [
        ("--serving_mode=both", "serving_mode: Invalid enum value 'both'. Use auto, exclusive or"),
        ("--image_codec=png", "image_codec: Invalid enum value 'png'. Use auto, jpeg or raw."),
        ("--model.dtype=int8", "Use auto, bfloat16, float16 or float32."),
        ("--rtc.prefix_attention_schedule=exp", "Use EXP, LINEAR, ONES or ZEROS."),
        (
            "--model.devise=cpu",
            "--model.devise: there is no field model.devise. Did you mean --model.device?",
        ),
        (
            "--max-sessions=2",
            "there is no field max-sessions. Did you mean --max_sessions?",
        ),
        ("--listen=tcp/a:7", "there is no field listen. Did you mean --zenoh.listen?"),
        ("--colour=red", "--colour: there is no field colour. There are model, contract,"),
        ("--max_sessions=0", "max_sessions: Expected `int` >= 1"),
        ("--http_port=70000", "http_port: Expected `int` <= 65535"),
        ("--trained_fps=0", "trained_fps: Expected `float` > 0"),
        ("--trained_fps=.nan", "trained_fps: Expected `float` > 0"),
        ("--trained_fps=.inf", "trained_fps: Expected `float` <= 10000"),
        ("--contract.fps=.inf", "contract.fps: Expected `float` <= 10000"),
        ("--contract.cameras={top: [0, 64, 3]}", "Expected `int` >= 1"),
        ("--rtc.max_guidance_weight=.inf", "rtc.max_guidance_weight: Expected `float` <= "),
        ("--rtc.execution_horizon=99999999", "rtc.execution_horizon: Expected `int` <= "),
        ("--grace_s=.inf", "grace_s: Expected `float` <= "),
        ("--first_request_s=.nan", "first_request_s: Expected `float` > 0"),
        ("--session_idle_timeout_s=.inf", "session_idle_timeout_s: Expected `float` <= "),
        ("--warmup_inferences=99999999", "warmup_inferences: Expected `int` <= "),
        ("--capture={dir: ring, max_mb: 999999999999}", "capture.max_mb: Expected `int` <= "),
        ("--zenoh.open_timeout_s=.nan", "zenoh.open_timeout_s: Expected `float` > 0"),
        ("--capture.max=5", "capture: Object missing required field `dir`"),
        ("--pin_task=true", "pin_task: there is no task"),
        ("--audit=stdot", "audit: 'stdot' is neither auto nor stdout nor none nor a path. Write"),
        ("--http_host=", "http_host: "),
        ("--zenoh.listen=[]", "zenoh.listen: no robot could reach this server"),
        ("--zenoh.listen=['tls/0.0.0.0:7447']", "zenoh.listen: 'tls/0.0.0.0:7447' needs tls.ca"),
        ("--zenoh.listen=tcp/0.0.0.0:7", "zenoh.listen: 'tcp/0.0.0.0:7' is beyond this machine"),
        ("--zenoh.connect=tcp/10.0.0.5:7", "zenoh.connect: 'tcp/10.0.0.5:7' is beyond this"),
        ("--zenoh.insecure=true", "zenoh.insecure: it is a field of the manifest itself"),
        ("--zenoh.mode=client", "zenoh.connect: a client needs at least one"),
        ("--zenoh.mode=star", "zenoh.mode: Invalid enum value 'star'. Use client, peer or router."),
        ("--zenoh.tls={ca: no.pem, cert: c, key: k}", "zenoh.listen: 'tcp/"),
        ("--zenoh.extra={no/such: 1}", "zenoh.extra.no/such: Zenoh does not take 1"),
        ("--model_name=///", "model_name: "),
        ("--service_name=status", "service_name: 'status' is a reserved word"),
        ("--server_name='***'", "server_name: "),
        ("--model.repo_or_path=", "model.repo_or_path: "),
    ],
)
def test_a_mistake_names_the_field_and_what_is_allowed(override, words):
    with pytest.raises(BadInput) as caught:
        load_manifest(None, [MODEL, override])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_one_endpoint_in_a_file_need_not_be_a_list(tmp_path):
    path = tmp_path / "serve.yaml"
    path.write_text(
        "model: {repo_or_path: a/b}\ninsecure: true\nzenoh: {connect: tcp/10.0.0.5:7447}\n"
    )
    assert load_manifest(path).zenoh.connect == ("tcp/10.0.0.5:7447",)


def test_a_mistake_names_its_flag_or_its_file(tmp_path):
    with pytest.raises(BadInput, match=r"^--zenoh\.listen: Expected `array`"):
        load_manifest(None, [MODEL, "--zenoh.listen=7"])
    path = tmp_path / "serve.yaml"
    path.write_text("zenoh: {listen: 7}")
    with pytest.raises(BadInput, match=r"serve\.yaml: zenoh\.listen: Expected `array`"):
        load_manifest(path)


def test_without_a_checkpoint_the_ways_to_name_one_are_said():
    with pytest.raises(BadInput, match=r"--model\.repo_or_path="):
        load_manifest(None, [])


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BadInput, match=r"manifest: .*none\.yaml cannot be read"):
        load_manifest(tmp_path / "none.yaml")


@pytest.mark.parametrize(
    ("override", "mode", "listen"),
    [
        ("--zenoh.listen=['tcp/0.0.0.0:7000']", "peer", ("tcp/0.0.0.0:7000",)),
        ("--zenoh.listen=tcp/0.0.0.0:7000", "peer", ("tcp/0.0.0.0:7000",)),
        ("--zenoh.connect=['tcp/10.0.0.5:7447']", "peer", ()),
        ("--zenoh.connect=tcp/10.0.0.5:7447", "peer", ()),
        ("--zenoh={mode: client, connect: ['tcp/10.0.0.5:7447']}", "client", ()),
        ("--zenoh.shared_memory=false", "peer", (LISTEN,)),
    ],
)
def test_a_server_is_a_peer_that_listens_unless_it_is_told_whom_to_join(override, mode, listen):
    zenoh = load_manifest(None, [MODEL, override, "--insecure=true"]).zenoh
    assert (zenoh.mode, zenoh.listen) == (mode, listen)


def test_names_that_are_not_given_are_made():
    manifest = load_manifest(None, [MODEL])
    assert (manifest.model_name, manifest.service_name) == ("user/policy", "user/policy")
    manifest = load_manifest(None, [MODEL, "--default_task=Fold the shirt."])
    assert manifest.service_name == "Fold-the-shirt"


def test_names_that_are_given_are_kept():
    given = ["--model_name=m", "--service_name=fold", "--server_name=left"]
    manifest = load_manifest(None, [MODEL, *given])
    assert (manifest.model_name, manifest.service_name, manifest.server_name) == (
        "m",
        "fold",
        "left",
    )


def test_replicas_on_one_machine_have_different_names():
    assert load_manifest(None, [MODEL]).server_name != load_manifest(None, [MODEL]).server_name


@pytest.mark.parametrize(
    ("folder", "label"),
    [
        ("mine", "mine"),
        ("mine/checkpoints/000600/pretrained_model", "mine"),
        ("demo/cycle_2/train/checkpoints/last/pretrained_model", "demo"),
    ],
)
def test_a_folder_is_called_by_the_part_that_tells_it_from_others(tmp_path, folder, label):
    (tmp_path / folder).mkdir(parents=True)
    assert model_label(str(tmp_path / folder)) == label


def test_a_task_that_no_key_can_hold_is_called_by_its_model():
    assert service_label("折衣服", "m") == "m"
    assert service_label("", "m") == "m"
    assert len(service_label("fold " * 100, "m")) <= 80


def test_a_misspelt_field_is_named_before_one_that_is_missing():
    with pytest.raises(BadInput, match="modle"):
        manifest_of({"modle": {"repo_or_path": "x"}})
    with pytest.raises(BadInput, match="no checkpoint is named"):
        manifest_of({})


@pytest.mark.parametrize(
    "extra", ["{transport/link/tx/lease: 2500}", "{transport/link/tx: {lease: 2500}}"]
)
def test_the_lease_is_what_zenoh_is_given(extra):
    model = "--model.repo_or_path=user/name"
    assert load_manifest(None, [model]).lease_s == 1.0
    assert load_manifest(None, [model, f"--zenoh.extra={extra}"]).lease_s == 2.5


@pytest.fixture
def certs(tmp_path):
    """Folders of certificates for a server and a robot."""
    now = datetime.now(UTC)
    Authority.create(tmp_path / "certs", 10, now)
    with Authority(tmp_path / "certs", now) as authority:
        authority.issue("server", "gpu", ["10.0.0.5"], 10)
        authority.issue("robot", "arm-7", [], 10)
    return tmp_path / "certs"


def test_a_folder_of_certificates_is_enough(certs):
    overrides = [MODEL, "--zenoh.listen=tls/0.0.0.0:7447", f"--zenoh.tls={certs}/server-gpu"]
    tls = load_manifest(None, overrides).zenoh.tls
    assert tls == Tls.folder(certs / "server-gpu")
    assert tls.access == str(certs / "server-gpu" / "access.json")


def test_a_folder_without_certificates_is_named(tmp_path):
    overrides = [MODEL, "--zenoh.listen=tls/0.0.0.0:7447", f"--zenoh.tls={tmp_path}"]
    with pytest.raises(BadInput, match=r"zenoh\.tls\.ca: there is no file .*ca\.pem"):
        load_manifest(None, overrides)


def test_a_server_has_the_name_in_its_certificate(certs):
    overrides = [MODEL, "--zenoh.listen=tls/0.0.0.0:7447", f"--zenoh.tls={certs}/server-gpu"]
    assert load_manifest(None, overrides).server_name == "gpu"
    assert load_manifest(None, [*overrides, "--server_name=gpu"]).server_name == "gpu"
    with pytest.raises(BadInput, match=r"server_name: 'left' is not the name .* 'gpu'"):
        load_manifest(None, [*overrides, "--server_name=left"])
    with pytest.raises(BadInput, match=r"zenoh\.tls\.cert: .* is the certificate of robot-arm-7"):
        load_manifest(None, [*overrides, f"--zenoh.tls={certs}/robot-arm-7"])
