"""The playbook names only what exists, covers every metric, and is the page in docs/."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from gpuwatch.cli.main import COMMANDS
from gpuwatch.diagnose.explanations.explanation import Explanation, all_explanations
from gpuwatch.diagnose.explanations.search import find
from gpuwatch.diagnose.playbook.topics import metric_meanings, steps_of, topic, topics
from gpuwatch.fleet.nodes.metrics import METRICS, NODE_METRICS
from gpuwatch.report.explain.page import playbook_page
from gpuwatch.rules.load import load_packs
from gpuwatch.rules.model.rule import Rule
from gpuwatch.tui.toolkit import keys
from gpuwatch.tui.training.rank_columns import COLUMNS

ASKED = (
    # the ten topics, the tips, help and prevention of the troubleshooting guide
    "oom", "nccl-errors", "hang", "slow", "loss-not-decreasing", "checkpoint-loading", "import-errors",
    "configuration-errors", "mixed-precision", "multi-node", "verbose-logging", "save-checkpoints",
    "profile-communication", "monitor-resources", "minimal-reproduction", "getting-help", "prevention",
    # common failures and the workflow of the other guides
    "shape-mismatch", "tokenization-length", "masking", "training-loop-errors", "gradient-not-flowing",
    "rank-mismatch", "slurm-environment", "gradient-synchronization", "data-sharding", "workflow",
    "inference-servers", "overheating", "node-lost",
    "communication-overhead", "load-imbalance", "memory-imbalance", "profile-at-scales", "checklist",
)  # fmt: skip


RAISES = ("Condition", "Sign")
"""Whose first argument is the code."""


@pytest.fixture(scope="module")
def known() -> list[Explanation]:
    rules = {each.id: each for each in load_packs(()).all if isinstance(each, Rule)}
    return all_explanations(rules)


def test_every_topic_that_was_asked_for_is_there() -> None:
    """Document 004, line 318."""
    assert set(ASKED) <= {each.id for each in topics()}


def test_rules_commands_and_keys_of_the_topics_exist() -> None:
    rules = load_packs(()).by_id
    bindings = {binding.id: binding for _, some in keys.SECTIONS for binding in some}
    for each in topics():
        assert set(each.rules) <= set(rules), each.id
        assert each.solutions, each.id
        commands = [evidence.command for evidence in each.evidence] + [step.code for step in each.solutions]
        for command in commands:
            if command.startswith("gpuwatch ") and command.split()[1] != "SOURCE":
                assert command.split()[1] in COMMANDS, (each.id, command)
        for evidence in each.evidence:
            assert bool(evidence.command) != bool(evidence.key), each.id
            if evidence.key:
                assert evidence.key in keys.shown(bindings[evidence.binding]), each.id


SOLUTIONS = {
    "oom": ("gradient_accumulation", "batch_size", "mixed_precision", "empty_cache", "FSDP", "num_layers"),
    "nccl-errors": ("NCCL_IB_DISABLE=1", "gloo", "NCCL_DEBUG", "device_count", "irewall"),
    "hang": ("timedelta(seconds=1800)", "DistributedSampler", "Before all-reduce"),
    "loss-not-decreasing": ("linear_warmup", "clip_grad_norm_", "learning_rate"),
    "checkpoint-loading": ("module.", "map_location", "summon_full_params"),
    "import-errors": ("pip install -e .", "PYTHONPATH", "cd /path"),
    "configuration-errors": ("num_heads", "validate_config"),
    "mixed-precision": ("GradScaler", "use_mixed_precision: false", "buffer_dtype"),
    "multi-node": ("MASTER_ADDR", "29500", "InfiniBand"),
    "gradient-not-flowing": ("retain_grad()",),
    "masking": ("-100",),
    "getting-help": ("2.0", "torch.__version__", "nvidia-smi"),
    "minimal-reproduction": ("WORLD_SIZE=1", "gloo"),
    "communication-overhead": ("batch size", "verlap", "tensor-parallel"),
}


@pytest.mark.parametrize("ident", SOLUTIONS)
def test_a_topic_has_the_solutions_of_the_guides(ident: str) -> None:
    """Document 004, line 266."""
    text = " ".join(f"{each.do} {each.code}" for each in topic(ident).solutions)
    assert [each for each in SOLUTIONS[ident] if each not in text] == []


def test_every_metric_and_column_has_a_meaning() -> None:
    meanings = metric_meanings()
    assert meanings["gpu"].keys() == METRICS.keys()
    assert meanings["node"].keys() == NODE_METRICS.keys()
    assert meanings["rank"].keys() == {column.name for column in COLUMNS}
    for each in (meaning for group in meanings.values() for meaning in group.values()):
        assert all((each.what, each.read, each.normal, each.bad))


def test_the_page_in_docs_is_made_from_the_data() -> None:
    page = (Path(__file__).parents[3] / "docs" / "playbook.md").read_text()
    assert page == playbook_page(), "run make docs"
    anchors = set(re.findall(r'<a id="([\w-]+)">', page))
    assert {each.id for each in topics()} == anchors


def test_an_id_is_found_and_words_find_topics_rules_and_metrics(known: list[Explanation]) -> None:
    for ident, kind in (
        ("hang", "topic"),
        ("oom.cuda", "rule"),
        ("power", "metric"),
        ("nvlink_down", "condition"),
    ):
        found = find(ident, known).exact
        assert found is not None
        assert (found.ident, found.kind) == (ident, kind)
        assert found.blocks
    links = [each.ident for each in find("link down", known).others]
    assert {"net.nic.link", "nvlink_down"} <= set(links[:4])
    first = {"nan fp16": "mixed-precision", "why is my gpu idle": "gpu-idle", "pip install": "import-errors"}
    for query, ident in first.items():
        assert [each.ident for each in find(query, known).others][:1] == [ident], query
    for query, ident in {
        "hangs": "hang",
        "deadlocked": "hang",
        "p99 latency": "inference-servers",
    }.items():
        assert ident in [each.ident for each in find(query, known).others][:3], query
    assert find("xyzzy plugh", known).others == ()


def test_every_code_that_is_raised_has_an_explanation(known: list[Explanation]) -> None:
    """Codes of conditions, signs and the library's warnings; flags of traces, memory and topologies."""
    raised = set()
    for path in (Path(__file__).parents[3] / "gpuwatch").glob("diagnose/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in RAISES:
                raised |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    for path in (Path(__file__).parents[3] / "gpuwatch").glob("telemetry/**/*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and node.func.attr == "warn"
            ):
                raised |= {each.value for each in node.args[:1] if isinstance(each, ast.Constant)}
    assert {"data.mask", "params.no_grad"} <= raised
    raised |= {"trace.gpu_idle", "memory.fragmented", "topology.nvlinks", "job.hang", "node_lost"}
    assert len(raised) > 30
    unknown = [code for code in raised if not (found := find(str(code), known)).exact and not found.others]
    assert unknown == []


def test_a_condition_leads_to_its_topic(known: list[Explanation]) -> None:
    by_id = {each.ident: each for each in known}
    for code, topic_id in {"serve.errors": "inference-servers", "hw_thermal": "overheating"}.items():
        assert f"gpuwatch explain {topic_id}" in by_id[code].text


def test_every_rule_is_explained_with_its_own_words(known: list[Explanation]) -> None:
    rules = load_packs(()).by_id
    by_id = {each.ident: each for each in known}
    for ident, rule in rules.items():
        assert rule.explain.strip() in by_id[ident].text
        steps = [re.sub(r"\{(\w+)\}", lambda named: named[1].upper(), step.strip()) for step in rule.do]
        assert all(step in by_id[ident].text for step in steps)


def test_the_flags_of_traces_take_their_steps_from_the_playbook() -> None:
    assert len(steps_of("communication-overhead")) == len(topic("communication-overhead").solutions)
    assert any("gpuwatch probe SOURCE" in step for step in steps_of("communication-overhead"))
    assert any("expandable_segments:True" in step for step in steps_of("fragmentation"))
