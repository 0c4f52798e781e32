"""The demo's ranks asked what they do: they train, and then all wait for one."""

from __future__ import annotations

import base64
import gzip

import msgspec

from gpuwatch import wire
from gpuwatch.diagnose.hang.combined_verdict import HangReport, analyze
from gpuwatch.diagnose.hang.flight_recorder.verdict import judge_flight
from gpuwatch.diagnose.hang.ras.reader import read_ras
from gpuwatch.diagnose.hang.stacks.groups import RankStack
from gpuwatch.hosts.builtin import demo_plan
from gpuwatch.link.demo.hang import GUILTY, reply
from gpuwatch.link.demo.links import EPOCH, DemoLink, demo_links
from gpuwatch.link.demo.scenario import FALL_AT
from gpuwatch.link.stream.inbox import Inbox
from gpuwatch.runs.flight.dumps import read_dump


def received(second: float) -> HangReport:
    stacks, ras = [], []
    for link in demo_links(demo_plan(), Inbox()):
        assert isinstance(link, DemoLink)
        processes = list(link.script.processes(second))
        pids = [each.pid for each in processes]
        reported = reply(wire.AskStacks(id=1, pids=pids), processes, second, 0.0)
        by_pid = {each.pid: each for each in msgspec.convert(reported.data, wire.Stacks).processes}
        for each in processes:
            assert each.rank is not None
            stack = RankStack(
                each.rank, link.node, each.pid, each.job, None, each.world_size, by_pid[each.pid]
            )
            stacks.append(stack)
        counts = reply(wire.AskRas(id=2, pids=pids), processes, second, 0.0)
        answers = msgspec.convert(counts.data, wire.RasAnswers).answers
        ras += [read_ras(answer, link.node) for answer in answers]
    return analyze(stacks, ras[:1], {}, lambda _host, _pid: None)


def test_while_it_trains_nobody_stands_apart() -> None:
    verdict = received(FALL_AT - 5).verdict
    assert verdict is not None
    assert not verdict.wrong


def test_stacks_and_nccl_name_the_rank_that_hangs_in_the_driver() -> None:
    found = received(FALL_AT + 10)
    assert found.verdict is not None
    assert (found.verdict.culprits, found.verdict.confidence) == ((GUILTY,), "high")
    assert found.ras_verdicts is not None
    assert found.ras_verdicts.culprits == (GUILTY,)
    assert found.jobs[0].verdict.culprits == (GUILTY,)
    assert "os_acquire_mutex" in found.jobs[0].verdict.sentence


def test_fresh_dumps_name_the_same_rank() -> None:
    dumps = []
    for link in demo_links(demo_plan(), Inbox()):
        assert isinstance(link, DemoLink)
        processes = list(link.script.processes(FALL_AT + 10))
        pids = [each.pid for each in processes]
        assert not places(link, pids, 0.0).places[0].files
        link.dumps.answer(wire.AskDumps(id=1, pids=pids), processes, FALL_AT + 10, EPOCH)
        (place,) = places(link, pids, EPOCH + 5).places
        for file in place.files:
            asked = wire.AskDumpPiece(id=3, pid=pids[0], prefix=place.prefix, name=file.name, offset=0)
            reported = link.dumps.answer(asked, processes, FALL_AT + 15, EPOCH + 5)
            data = gzip.decompress(base64.b64decode(msgspec.convert(reported.data, wire.DumpPiece).packed))
            assert len(data) == file.size_bytes
            dumps.append(read_dump(data, file.rank, file.name))
    stated = judge_flight(dumps).verdict
    assert (stated.culprits, stated.confidence) == ((GUILTY,), "high")


def places(link: DemoLink, pids: list[int], t: float) -> wire.DumpPlaces:
    processes = list(link.script.processes(FALL_AT + 10))
    reported = link.dumps.answer(wire.AskDumpFiles(id=2, pids=pids), processes, FALL_AT + 10, t)
    return msgspec.convert(reported.data, wire.DumpPlaces)
