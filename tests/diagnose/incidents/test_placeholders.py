"""Steps of the playbooks with and without the values that they need."""

from __future__ import annotations

import re

import pytest

from gpuwatch.diagnose.incidents.culprits.culprit import CulpritChoice
from gpuwatch.diagnose.incidents.culprits.suspects import Hang
from gpuwatch.diagnose.incidents.placeholders import command, filled
from gpuwatch.diagnose.incidents.playbook import playbook, settle
from gpuwatch.diagnose.model.alert import Alert
from gpuwatch.diagnose.model.incident import UNKNOWN
from gpuwatch.diagnose.model.rank_index import RankIndex
from gpuwatch.fleet.jobs.places import Places
from gpuwatch.rules.load import load_packs
from tests.sentences import Sentences

PACKS = load_packs()
LEFT = re.compile(r"[<{](?:node|gpu|rank|job|pid)[>}]")
EMPTY = re.compile(r"``|  |\( | ,\.|: \.(?!\.)| ,")
RESET = re.compile(r"nvidia-smi(?! -i \d)[^`]* -r\b")


@pytest.mark.parametrize("node", [None, "gpu-b03"])
@pytest.mark.parametrize("gpu", [None, 5])
@pytest.mark.parametrize("rank", [None, 3])
def test_no_step_of_any_pack_keeps_a_placeholder(node: str | None, gpu: int | None, rank: int | None) -> None:
    for code in PACKS.by_id:
        explain, steps, _ = playbook(code, PACKS, node, gpu, rank)
        for text in (explain, *steps):
            assert not LEFT.search(text), (code, text)
        for step in steps:
            spaced = step.replace("   ", " ")  # commands stand apart from their place by three spaces
            assert not EMPTY.search(spaced), (code, step)


def test_with_all_values_every_command_of_every_pack_stays() -> None:
    for code, rule in PACKS.by_id.items():
        _, steps, _ = playbook(code, PACKS, "gpu-b03", 5, 3)
        for raw, step in zip(rule.do, steps, strict=True):
            assert raw.count("`") == step.count("`"), (code, step)


@pytest.mark.parametrize(
    ("text", "bare", "whole"),
    [
        (
            "Reset the GPU, `nvidia-smi -i {gpu} -r`.",
            "Reset the GPU (`nvidia-smi -L` lists the GPUs with their indexes).",
            "Reset the GPU, `nvidia-smi -i 5 -r`.",
        ),
        (
            "Read them, `nvidia-smi -q -i {gpu} -d ECC`, on {node}.",
            "Read them, `nvidia-smi -q -d ECC`, on the node.",
            "Read them, `nvidia-smi -q -i 5 -d ECC`, on gpu-b03.",
        ),
        ("{node} is cold: GPU {gpu}.", "The node is cold: the GPU.", "gpu-b03 is cold: GPU 5."),
    ],
)
def test_a_command_without_its_value_is_no_command(text: str, bare: str, whole: str) -> None:
    assert filled(text, {}) == bare
    assert filled(text, {"node": None, "gpu": None, "rank": None, "job": None, "pid": None}) == bare
    assert filled(text, {"node": "gpu-b03", "gpu": 5}) == whole


def test_no_query_of_one_gpu_becomes_a_reset_of_all() -> None:
    for rule in PACKS.by_id.values():
        for step in rule.do:
            if not RESET.search(step.replace("{gpu}", "5")):
                assert not RESET.search(filled(step, {})), step


def test_a_remote_command_without_its_node_says_where_to_run_it(sentences: Sentences) -> None:
    step = ["nvidia-smi -i {gpu} -q; dmesg -T"]

    def remote(**values: object) -> str:
        return command(step, values, remote=True)

    assert remote(node="gpu-b03", gpu=5) == "ssh gpu-b03 'nvidia-smi -i 5 -q; dmesg -T'"
    assert remote(node="gpu-b03") == "ssh gpu-b03 'nvidia-smi -q; dmesg -T'"
    sentences(remote(rank=3))
    assert not LEFT.search(command(["py-spy", "dump", "--pid", "{pid}"], {"node": "gpu-b03"}, remote=True))
    assert remote(node=None, rank=3) == remote(rank=3)


@pytest.mark.parametrize("code", [UNKNOWN, "rank.killed", "nccl.remote_error", "oom.cuda"])
@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize(
    "who", [(None, None, None), (3, None, None), (None, "gpu-b03", None), (3, "gpu-b03", 5)]
)
def test_what_settles_a_doubt_keeps_no_placeholder(
    code: str, ended: bool, who: tuple[int | None, str | None, int | None]
) -> None:
    stuck = Hang((0, 1), (0, 1, 3), "", began=0.0, printed=1.0, silent=(3,))
    for hang in (None, stuck):
        cause = None if code == UNKNOWN else Alert("a", code, "error", "t", "t", ())
        steps = settle(cause, CulpritChoice(*who), hang, "4711", RankIndex(Places()), ended=ended)
        assert steps
        assert not [step for step in steps if LEFT.search(step)]
