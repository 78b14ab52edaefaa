"""The borders between folders, and what holds for every module."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import lefleet
import lefleet.constitution
import lefleet.devices
import lefleet.executors
import lefleet.knowledge
import lefleet.ledger
import lefleet.policy
import lefleet.process
import lefleet.recording
import lefleet.records
import lefleet.robots
import lefleet.rollouts
import lefleet.stages
import lefleet.stats

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "lefleet"
CLIENT = ROOT / "client" / "src" / "lefleet_client"
MODULES = sorted(SOURCE.rglob("*.py"))
PACKAGES = sorted({path.parent for path in MODULES} - {SOURCE})

MAY_IMPORT = {
    "errors": set(),
    "durable": set(),
    "experts": set(),
    "records": {"errors"},
    "stats": {"errors", "records"},
    "constitution": {"errors", "records", "sim"},
    "process": {"errors", "constitution"},
    "devices": {"errors", "records", "process"},
    "sim": {"errors", "experts"},
    "rollouts": {"errors", "experts", "records", "process", "sim"},
    "compat": {"errors"},
    "stages": {"errors", "records", "constitution", "stats", "process", "devices", "sim"},
    "ledger": {"errors", "records", "process"},
    "models": {"errors", "records", "stages"},
    "knowledge": {"errors", "records", "stats", "stages", "ledger"},
    "notify": {"errors", "records", "process", "ledger"},
    "loop": {"errors", "records", "stats", "process", "sim", "stages", "ledger"},
    "policy": {"errors", "records", "devices", "stages"},
    "server": {"errors", "records", "devices", "policy"},
    "certs": {"errors", "records"},
    "robots": {"errors", "sim"},
    "recording": {"errors"},
    "edge": {"errors", "records", "constitution", "recording"},
    "testbed": {"errors", "records", "process", "sim", "stages", "policy", "robots", "edge"},
    "profile": {"errors", "records", "stats", "process", "sim", "stages", "robots", "testbed"},
    "trial": {"errors", "records", "process", "sim", "rollouts", "stages", "robots", "testbed"},
    "cli": {"errors", "records", "process", "sim", "rollouts", "stages", "compat.KNOWN_LEROBOT"},
    "__init__": {"errors", "records", "stages"},
    "__main__": {"cli"},
}
MAY_IMPORT["stages"] |= {"rollouts"}
MAY_IMPORT["cluster"] = {"durable", "errors", "records", "constitution", "process"}
MAY_IMPORT["rollouts"] |= {"cluster"}
MAY_IMPORT["stages"] |= {"cluster", "durable"}
MAY_IMPORT["executors"] = {
    "durable",
    "errors",
    "records",
    "process",
    "cluster",
    "devices",
    "stages",
}
MAY_IMPORT["loop"] |= {"cluster", "executors", "durable"}
MAY_IMPORT["cli"] |= {"cluster", "executors", "durable"}
MAY_IMPORT["knowledge"] |= {"durable"}
MAY_IMPORT["profile"] |= {"durable"}
MAY_IMPORT["cli"] |= {"certs", "edge", "ledger", "loop", "policy", "recording", "robots", "server"}
MAY_IMPORT["cli"] |= {"constitution", "devices", "knowledge", "notify", "trial"}
MAY_IMPORT["loop"] |= {"constitution", "devices", "knowledge", "models", "notify"}
MAY_IMPORT["track"] = {"errors", "records", "process", "ledger"}
MAY_IMPORT["loop"] |= {"track"}
MAY_IMPORT["cli"] |= {"track"}
MAY_IMPORT["queries"] = {"errors", "records", "stats", "process", "stages", "ledger", "loop"}
MAY_IMPORT["queries"] |= {"knowledge", "recording"}
MAY_IMPORT["actions"] = MAY_IMPORT["queries"] | {"queries", "constitution", "devices"}
MAY_IMPORT["dash"] = {"errors", "records", "process", "ledger", "queries", "actions"}
MAY_IMPORT["dash"] |= {"knowledge", "server.rates", "stages", "reports"}
MAY_IMPORT["reports"] = {"durable", "errors", "records", "stages", "queries"}
MAY_IMPORT["cli"] |= {"queries", "actions", "dash", "reports"}
STARTERS = {
    "subprocess": {"Popen", "run", "call", "check_call", "check_output", "getoutput"},
    "os": {"fork", "forkpty", "system", "popen", "posix_spawn", "posix_spawnp", "startfile"},
    "asyncio": {"create_subprocess_exec", "create_subprocess_shell"},
}
PUBLIC = {
    lefleet: """BadInput CheckpointContract CheckpointRecord CompareRequest
        ComparisonRecord Corrections DatasetRecord EnvelopeRecord EpisodeRecord EvaluateRequest
        EvaluationRecord ExistingDataset ExpertDemos ImproveRequest LeFleetError MixRecord
        ProfileRequest StageFailed TrainRequest run_stage""",
    lefleet.records: """AddedData ApprovalAnswer ApprovalKind ApprovalPlan NotifyKind NotifyPlan
        Proposal ProposalLimits ProposalRecord ProposePlan ProposeRequest ProposedAction
        AttemptCounts Budgets CheckpointContract CheckpointRecord
        CollectRequest CompareOptions CompareRequest ComparisonRecord Corrections
        DatasetRecord DatasetSource DecidePlan Decision DelayCell DrivenEpisode EnvelopeRecord
        EpisodeRecord EvaluatePlan
        EvaluateRequest EvaluationRecord ExistingDataset ExpertDemos ExpertGrowth GateLevel
        GateLook GatePlan GateResult ImprovePlan ImproveRequest LossPoint MixRecord OriginData
        PolicyResult ProfileOptions ProfileRequest Rate Record Request RunConfig RunOrigin Rung
        SeedBlock TaskPairs Tracker TrainRequest decode encode validated""",
    lefleet.stats: """Gate GateRule Pair exact_interval fixed_power fixed_size gate_level
        has_room least_difference match_trials needed_pairs pairs_for_room possible_pairs
        progress_of success_of""",
    lefleet.process: """NoReport Pool allow_forks ask child_environment exit_words is_held launch
        obstacle oom_kills processes_marked require_allowed stop""",
    lefleet.executors: "BodyState Executor LocalExecutor StageBody for_plan",
    lefleet.devices: "AUTO CPU DeviceReport parse_device ready_device",
    lefleet.constitution: """Constitution ConstitutionSource Grants RolloutFacts Rules active find
        given handed_down install installed packaged reinstated restored rules_for rules_for_grants
        rules_for_request stored""",
    lefleet.knowledge: "Finding context ingest lint pages search suggestions update",
    lefleet.ledger: "ApprovalRow AttemptRow EventRow Ledger RunRow open_ledger read_ledger",
    lefleet.policy: """BadRequest Chunk ContractOverride ModelSettings PolicyFrame PolicyRequest
        RtcSettings ServedPolicy load_policy""",
    lefleet.recording: """EpisodeLabel FrameProvenance Outcome OutcomeSource RecordedDataset
        finished_episodes label outcomes read_provenance recover undo_label""",
    lefleet.robots: """LeFleetSim LeFleetSimConfig LeFleetSimExpert LeFleetSimExpertConfig
        SimExtras""",
    lefleet.rollouts: """Act Behaviour Demonstrate EnvironmentDescription EpisodeBatch Finished
        PlannedEpisode Relabel Simulators TakeOver default_workers""",
    lefleet.stages: "Progress Update run_stage silent",
}
HEAVY = """torch lerobot mujoco metaworld gymnasium numpy scipy pandas datasets huggingface_hub
    pydantic_ai pydantic openai anthropic google.genai httpx2 opentelemetry fastapi starlette
    nicegui uvicorn trackio wandb ray psycopg"""


def imported(source: str) -> set[str]:
    """Every module that `source` imports, wherever in it."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def trespasses(source: str, folder: str) -> list[str]:
    """Imports of lefleet that `folder` may not make."""
    parts = [name.split(".")[1:] for name in imported(source) if name.split(".")[0] == "lefleet"]
    allowed = {folder, *MAY_IMPORT[folder]}
    modules = {".".join(part) for part in parts if part}
    return sorted(
        name
        for name in modules
        if not any(name == other or name.startswith(f"{other}.") for other in allowed)
        # `from lefleet.compat import KNOWN_LEROBOT` also names its parent.
        and not any(other.startswith(f"{name}.") for other in allowed)
    )


def process_starts(source: str) -> list[str]:
    """Ways to start a process; constants of subprocess and Popen[...] as a type are none."""
    tree = ast.parse(source)
    types = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Subscript)}
    found = [name for name in imported(source) if name.split(".")[0] in ("multiprocessing", "pty")]
    found += [name for name in imported(source) if _is_starter(*name.rpartition(".")[::2])]
    uses = [
        (node.value.id, node.attr)
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and id(node) not in types
    ]
    return found + [f"{module}.{name}" for module, name in uses if _is_starter(module, name)]


def _is_starter(module: str, name: str) -> bool:
    families = module == "os" and re.match("exec|spawn", name)
    return bool(families) or name in STARTERS.get(module, ()) or name == "ProcessPoolExecutor"


def folder_of(path: Path) -> str:
    return path.relative_to(SOURCE).parts[0].removesuffix(".py")


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_imports_go_one_way(path):
    assert trespasses(path.read_text(), folder_of(path)) == []


@pytest.mark.parametrize(
    ("source", "folder"),
    [
        ("from lefleet.stages import run_stage", "records"),
        ("def late():\n    import lefleet.compat.train", "stages"),
        ("from lefleet.compat.train import in_memory", "cli"),
        ("from lefleet import cli", "stages"),
        ("from lefleet.loop import state", "ledger"),
        ("from lefleet.robots import LeFleetSim", "edge"),
    ],
)
def test_an_import_against_the_order_is_noticed(source, folder):
    assert trespasses(source, folder)


def test_the_client_imports_nothing_of_lefleet():
    names = {name for path in CLIENT.rglob("*.py") for name in imported(path.read_text())}
    assert [name for name in names if name.split(".")[0] == "lefleet"] == []


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_only_launch_starts_processes(path):
    is_launch = path == SOURCE / "process" / "launch.py"
    assert bool(process_starts(path.read_text())) == is_launch


@pytest.mark.parametrize(
    "source",
    [
        "import subprocess\nsubprocess.run(['ls'])",
        "from subprocess import check_output",
        "import subprocess\nstart = subprocess.Popen",
        "import os\nos.execvp('ls', ['ls'])",
        "from multiprocessing import Process",
        "from concurrent.futures import ProcessPoolExecutor",
    ],
)
def test_starting_a_process_elsewhere_is_noticed(source):
    assert process_starts(source)


@pytest.mark.parametrize("module", PUBLIC, ids=lambda module: module.__name__)
def test_public_names_are_pinned(module):
    assert sorted(module.__all__) == sorted(PUBLIC[module].split())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_a_module_begins_by_saying_what_it_is_for(path):
    assert ast.get_docstring(ast.parse(path.read_text()))


@pytest.mark.parametrize("package", PACKAGES, ids=name_of)
def test_modules_that_a_folder_lists_exist(package):
    text = ast.get_docstring(ast.parse((package / "__init__.py").read_text()))
    listed = re.findall(r"^    (\w+(?:, \w+)*)  +\w", text, re.MULTILINE)
    names = {name for group in listed for name in group.split(", ")}
    assert names <= {path.stem for path in package.iterdir()}


@pytest.mark.parametrize("statement", ["import lefleet", "from lefleet.cli import main; main()"])
def test_nothing_heavy_is_imported_before_it_is_needed(statement):
    code = f"""
import json, sys
sys.argv = ["lefleet", "--help"]
try:
    {statement}
except SystemExit as end:
    assert end.code == 0, end.code
print(json.dumps(sorted(sys.modules)), file=sys.stderr)
"""
    child = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = json.loads(child.stderr.splitlines()[-1])
    assert "lefleet" in loaded
    assert set(loaded).isdisjoint(HEAVY.split())


@pytest.mark.parametrize("path", MODULES, ids=name_of)
def test_no_module_is_long(path):
    assert len(path.read_text().splitlines()) <= 350


def public_types(source: str) -> list[str]:
    """Names of classes and type aliases that other modules may import."""
    tree = ast.parse(source)
    names = [node.name for node in tree.body if isinstance(node, ast.ClassDef)]
    names += [node.name.id for node in ast.walk(tree) if isinstance(node, ast.TypeAlias)]
    assigned = [node.targets[0] for node in tree.body if isinstance(node, ast.Assign)]
    names += [node.id for node in assigned if isinstance(node, ast.Name) and not node.id.isupper()]
    return [name for name in names if name[0].isupper()]


def test_no_public_type_name_means_two_things():
    roots = (SOURCE, CLIENT, ROOT / "plugin" / "src")
    places: dict[str, list[str]] = {}
    for path in sorted(path for root in roots for path in root.rglob("*.py")):
        for name in public_types(path.read_text()):
            places.setdefault(name, []).append(name_of(path))
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
