"""What changes while the agent runs: the driver is repaired, GPUs come and go, MIG is switched."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.agent.conftest import Start
from tests.agent.running import lists, uuid_of
from tests.fake_nvml.build import SONAME, FakeNvml, build
from tests.sentences import Sentences


@pytest.mark.sampled(1)
@pytest.mark.parametrize("code", [9, 18])
def test_a_driver_that_was_repaired_is_used_without_a_new_start(
    start: Start, fake: FakeNvml, code: int
) -> None:
    fake.set(f"error - {code} nvmlInitWithFlags")
    agent = start()
    assert agent.hello(lambda h: bool(h.notices)).gpus == []
    fake.set()
    after = agent.hello(lists(8))
    assert not {"driver_mismatch", "driver_not_loaded", "no_gpu"} & {n.code for n in after.notices}
    assert agent.gpu(0, lambda g: g.fast is not None).state == "ok"


def test_a_driver_that_is_unloaded_and_loaded_again(
    start: Start, fake: FakeNvml, sentences: Sentences
) -> None:
    agent = start()
    agent.gpu(0, lambda g: g.fast is not None)
    fake.set("error * 9 *", "error - 9 *")
    sentences(agent.gpu(0, lambda g: g.state == "lost").reason)
    agent.until(lambda _: fake.calls().get("nvmlInitWithFlags", {}).get(-1, 0) > 1, "another init")
    fake.set()
    agent.event("gpu_back", gpu=0)
    seen = len(agent.frames)
    agent.gpu(0, lambda g: g.state == "ok" and g.fast is not None, seen)
    assert agent.hello(lambda h: all("driver" not in n.code for n in h.notices)).gpus


def test_a_library_that_was_replaced_needs_a_new_process(
    start: Start, tmp_path: Path, sentences: Sentences
) -> None:
    """The old library is mapped for good: the link dials again when the agent leaves."""
    driver = FakeNvml(build(tmp_path / "lib"), tmp_path / "driver")
    driver.set("error - 18 nvmlInitWithFlags")
    agent = start(driver)
    notice = agent.hello(lambda h: any(n.code == "driver_mismatch" for n in h.notices)).notices
    sentences([n.remedy for n in notice if n.code == "driver_mismatch"])
    (build(tmp_path / "new") / SONAME).replace(driver.folder / SONAME)
    assert "library" in agent.bye()
    assert agent.wait() == 0


def test_gpus_that_are_added_and_taken_away(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 3")
    agent = start()
    agent.hello(lists(3))
    fake.set("gpus 4")
    assert [gpu.uuid for gpu in agent.hello(lists(4)).gpus] == [uuid_of(i) for i in range(4)]
    agent.gpu(3, lambda g: g.fast is not None)
    seen = len(agent.frames)
    agent.gpu(0, lambda g: g.fast is not None, seen)  # who was there before goes on

    fake.set("gpus 2")
    for index in (2, 3):
        assert agent.gpu(index, lambda g: g.state == "lost").reason == "GPU not found"
    seen = len(agent.frames)
    agent.gpu(1, lambda g: g.state == "ok" and g.fast is not None, seen)
    fake.set("gpus 3")
    agent.event("gpu_back", gpu=2)
    agent.gpu(2, lambda g: g.state == "ok" and g.fast is not None, len(agent.frames))
    assert not any(event.event == "gpu_lost" and event.gpu == uuid_of(0) for event in agent.events())


def test_a_node_whose_first_gpu_comes_later(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 0")
    agent = start()
    agent.hello(lambda h: any(n.code == "no_gpu" for n in h.notices))
    fake.set("gpus 1")
    after = agent.hello(lists(1))
    assert not any(n.code == "no_gpu" for n in after.notices)
    agent.gpu(0, lambda g: g.fast is not None)


def test_a_mig_mode_that_is_switched(start: Start, fake: FakeNvml) -> None:
    fake.set("gpus 2")
    agent = start()
    agent.hello(lambda h: [gpu.mig_enabled for gpu in h.gpus] == [False, False])
    fake.set("gpus 2", "mig 1 2")
    on = agent.hello(lambda h: [gpu.mig_enabled for gpu in h.gpus] == [False, True])
    assert on.gpus[1].gpm is False
    slow = agent.gpu(1, lambda g: g.slow is not None and bool(g.slow.mig)).slow
    assert slow is not None and slow.mig is not None and len(slow.mig) == 2
    fake.set("gpus 2")
    seen = len(agent.frames)
    agent.hello(lambda h: [gpu.mig_enabled for gpu in h.gpus] == [False, False], seen)
    back = agent.gpu(1, lambda g: g.fast is not None and g.fast.utilization_pct is not None, seen)
    assert back.state == "ok"  # what MIG could not answer is asked again
