"""What receivers get, in which order and how often, over real HTTP on loopback."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import msgspec
import pytest

from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.report.delivery import ledger, sending
from gpuwatch.report.delivery.delivery import Delivery
from gpuwatch.report.delivery.sender import Pace
from tests.link.stream.dripping import dripping
from tests.report.delivery.receivers import QUICK, SECRET, Mood, delivery, incident, over, receiver, until

SLOW_REPEATS = Pace(settle_s=0.0, repeat_s=600.0, firing_s=0.3, first_wait_s=0.05)


def hook(url: str) -> ReceiverSpec:
    return ReceiverSpec("webhook", f"{url}/{SECRET}")


def test_firing_and_resolved_once_each(tmp_path: Path) -> None:
    with receiver() as known, delivery(tmp_path, hook(known.url)) as made:
        one = incident()
        until(made, [one], lambda: len(known.bodies) == 1)
        until(made, [over(one)], lambda: len(known.bodies) == 2)
        until(made, [over(one)], lambda: made.status()[0].waiting == 0)
    firing, resolved = known.json()
    assert (firing["status"], resolved["status"]) == ("firing", "resolved")
    assert firing["incident"] == resolved["incident"]
    assert (firing["rank"], firing["node"], firing["gpu"], firing["job"]) == (1, "gpu-003", 1, "411")
    assert firing["resolved_at"] is None
    assert resolved["resolved_at"] >= firing["first_seen"]
    assert len(known.bodies) == 2


def test_an_alertmanager_gets_all_that_stands_in_one_message(tmp_path: Path) -> None:
    with receiver() as known, delivery(tmp_path, ReceiverSpec("alertmanager", known.url)) as made:
        several = [incident(number) for number in range(1, 4)]
        until(made, several, lambda: len(known.bodies) >= 2)  # repeated, for it forgets
        first, again = known.json()[0], known.json()[1]
        assert [each["labels"] for each in first] == [each["labels"] for each in again]
        assert len({each["labels"]["incident"] for each in first}) == 3
        assert {each["labels"]["alertname"] for each in first} == {"GpuwatchIncident"}
        assert all(each["endsAt"] > each["startsAt"] for each in first)
        count = len(known.bodies)
        ended = [over(several[0]), *several[1:]]
        until(made, ended, lambda: len(known.bodies) > count + 3)
        ends = {each["labels"]["incident"]: each["endsAt"] for each in known.json()[-1]}
        assert len(set(ends.values())) == 2
        assert min(ends.values()) < time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(time.time() + 1))


MOODS: list[tuple[Mood, str]] = [
    ("500", "HTTP 500"),
    ("garbage", "not HTTP"),
    ("redirect", "HTTP 302"),
    ("wait", "HTTP 429"),
]


@pytest.mark.parametrize(("mood", "reason"), MOODS, ids=[mood for mood, _ in MOODS])
def test_a_failing_receiver_is_shown_and_reported_once_later(tmp_path: Path, mood: Mood, reason: str) -> None:
    with receiver(mood) as known, delivery(tmp_path, hook(known.url)) as made:
        one = incident()
        until(made, [one], lambda: reason in made.trouble)
        assert SECRET not in made.trouble
        assert "1 waiting" in made.trouble
        known.mood = "ok"
        until(made, [one], lambda: not made.trouble)
        assert [each["status"] for each in known.json()] == ["firing"]


@pytest.mark.parametrize(("mood", "reason"), MOODS, ids=[mood for mood, _ in MOODS])
def test_a_failing_alertmanager_gets_the_incident_later(tmp_path: Path, mood: Mood, reason: str) -> None:
    with receiver(mood) as known, delivery(tmp_path, ReceiverSpec("alertmanager", known.url)) as made:
        one = incident()
        until(made, [one], lambda: reason in made.trouble)
        before, known.mood = len(known.bodies), "ok"
        until(made, [one], lambda: not made.trouble and len(known.bodies) > before)
        assert len(known.json()[-1]) == 1


def test_a_receiver_whose_head_never_ends_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sending, "ATTEMPT_S", 0.3)
    with (
        receiver() as other,
        dripping(b"HTTP/1.1 200 OK\r\nX: ", b"a") as url,
        delivery(tmp_path, hook(url), hook(other.url)) as made,
    ):
        until(made, [incident()], lambda: "too long" in made.trouble and bool(other.bodies))
        assert "1 waiting" in made.trouble
        assert SECRET not in made.trouble


def test_a_receiver_that_is_down_gets_it_when_it_is_up(tmp_path: Path) -> None:
    with receiver() as known:
        port = int(known.url.rpartition(":")[2])
    with delivery(tmp_path, hook(f"http://127.0.0.1:{port}")) as made:
        one = incident()
        until(made, [one], lambda: "refused" in made.trouble)
        with receiver(port=port) as known:
            until(made, [one], lambda: len(known.bodies) == 1)


def test_a_slow_receiver_holds_up_neither_the_session_nor_the_other(tmp_path: Path) -> None:
    with receiver("slow") as slow, receiver() as quick:
        with delivery(tmp_path, hook(slow.url), hook(quick.url)) as made:
            one = incident()
            until(made, [one], lambda: slow.asked > 0 and len(quick.bodies) == 1)
            for _ in range(100):
                made.update([one])
            assert not slow.left
        assert not slow.left


@pytest.mark.parametrize("mood", ["page", "deep"])
def test_another_answer_is_no_alertmanagers_and_it_is_asked_again(tmp_path: Path, mood: Mood) -> None:
    with receiver(mood) as known, delivery(tmp_path, ReceiverSpec("alertmanager", known.url)) as made:
        until(made, [incident()], lambda: "Alertmanager" in made.trouble)
        known.mood = "ok"
        until(made, [incident()], lambda: not made.trouble and made.status()[0].waiting == 0)


@pytest.mark.parametrize("fault", [RecursionError, MemoryError, KeyError, UnicodeError, RuntimeError])
def test_no_exception_ends_a_sender(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fault: type[Exception]
) -> None:
    with receiver() as known, delivery(tmp_path, hook(known.url)) as made:
        with monkeypatch.context() as broken:

            def fails(*_: object) -> None:
                raise fault(SECRET)

            broken.setattr("gpuwatch.report.delivery.sender.send", fails)
            until(made, [incident()], lambda: fault.__name__ in made.trouble)
            assert SECRET not in made.trouble
            assert "1 waiting" in made.trouble
        until(made, [incident()], lambda: not made.trouble)
        assert [each["status"] for each in known.json()] == ["firing"]


def test_a_restart_repeats_nothing_and_goes_on(tmp_path: Path) -> None:
    with receiver() as known:
        one = incident()
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [one], lambda: len(known.bodies) == 1)
        again = msgspec.structs.replace(one, id="other", number=7, first=one.first + 20)
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [again], lambda: made.status() != [] and made.status()[0].waiting == 0)
            until(made, [over(again)], lambda: len(known.bodies) == 2)
        assert [each["status"] for each in known.json()] == ["firing", "resolved"]
        assert len({each["incident"] for each in known.json()}) == 1


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"job": None}, {"job": "run7"}),
        ({"job": "gpu-003:29500"}, {"job": "run7"}),
        ({"rank": None}, {"rank": 1}),
    ],
)
def test_a_restart_that_learns_more_of_a_place_repeats_nothing(
    tmp_path: Path, before: dict[str, object], after: dict[str, object]
) -> None:
    first = time.time() - 300
    with receiver() as known:
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [incident(1, first=first, **before)], lambda: len(known.bodies) == 1)
        again = incident(1, id="other", first=first, **after)
        elsewhere = incident(2, first=first, **{**after, "node": "gpu-007"})
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [elsewhere, again], lambda: len(known.bodies) == 2)
            until(made, [elsewhere, over(again)], lambda: len(known.bodies) == 3)
        ids = [each["incident"] for each in known.json()]
        assert ids[0] == ids[2] != ids[1]
        assert [each["status"] for each in known.json()] == ["firing", "firing", "resolved"]


def test_what_was_not_delivered_before_a_restart_is_delivered_after_it(tmp_path: Path) -> None:
    with receiver("500") as known:
        one = incident()
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [one], lambda: known.asked > 0)
        known.mood = "ok"
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [], lambda: len(known.bodies) == 1)


def test_the_state_file_is_for_its_owner_and_holds_no_secret(tmp_path: Path) -> None:
    with receiver() as known, delivery(tmp_path, hook(known.url)) as made:
        until(made, [incident()], lambda: len(known.bodies) == 1)
    (state,) = tmp_path.glob("delivery-*.json")
    assert state.stat().st_mode & 0o777 == 0o600
    assert SECRET.encode() not in state.read_bytes()


def test_a_damaged_state_file_is_set_aside(tmp_path: Path) -> None:
    with receiver() as known:
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [incident()], lambda: len(known.bodies) == 1)
        (state,) = tmp_path.glob("delivery-*.json")
        state.write_bytes(b'[{"fingerprint": 1')
        with delivery(tmp_path, hook(known.url)) as made:
            until(made, [incident()], lambda: len(known.bodies) == 2)
        assert list(tmp_path.glob("*.damaged"))


def test_one_of_two_processes_delivers_and_the_other_takes_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("gpuwatch.report.delivery.delivery.TRY_LOCK_S", 0.1)
    with receiver() as known, delivery(tmp_path, hook(known.url)) as second:
        with delivery(tmp_path, hook(known.url)) as first:
            until(first, [incident()], lambda: len(known.bodies) == 1)
            second.update([incident()])
            assert second.status() == []
        until(second, [incident(2)], lambda: len(known.bodies) == 2)
        assert {each["rank"] for each in known.json()} == {1, 2}


def test_a_flood_comes_at_the_rate_and_loses_nothing(tmp_path: Path) -> None:
    many = [incident(number) for number in range(1, 201)]
    with receiver() as chat, receiver() as manager:
        specs = (hook(chat.url), ReceiverSpec("alertmanager", manager.url))
        with delivery(tmp_path, *specs, pace=SLOW_REPEATS) as made:
            until(made, many, lambda: len(chat.bodies) >= 20 and len(manager.bodies) >= 1)
            hooked, managed = made.status()
            assert hooked.waiting + len(chat.bodies) >= 200
            assert len(chat.bodies) < 100
            assert (hooked.lost, managed.lost, managed.waiting) == (0, 0, 0)
            assert sum(map(len, manager.json())) == 200


def test_one_node_with_many_incidents_delays_no_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ledger, "KEPT_ENTRIES", 50)
    wall, book = time.time(), ledger.Ledger(tmp_path / "state.json", "hosts.yaml", settle_s=0.0)
    many = [incident(number, node="evil") for number in range(1, 40)]
    book.take([*many, incident(41, node="honest")], wall)
    sent = []
    for _ in range(3):
        entry = next(book.due("slack", "warning", wall))
        book.note(entry.fingerprint, "slack", ledger.AcceptedMessage("firing", entry.severity, wall))
        sent.append(entry.texts.node)
    assert sent.count("honest") == 1
    book.take([*many, *(incident(number, node="evil") for number in range(100, 200))], wall)
    assert len(book.entries) == 50
    assert "honest" in [each.texts.node for each in book.entries.values()]


def test_history_and_remarks_are_not_delivered(tmp_path: Path) -> None:
    old = incident(1, first=time.time() - 90_000, last=time.time() - 86_400)
    with receiver() as known, delivery(tmp_path, hook(known.url)) as made:
        given = [old, incident(2, severity="info"), incident(3)]
        until(made, given, lambda: len(known.bodies) == 1 and made.status()[0].waiting == 0)
        assert known.json()[0]["rank"] == 3


def test_the_least_severity_and_an_escalation(tmp_path: Path) -> None:
    with receiver() as known:
        spec = ReceiverSpec("webhook", known.url, min_severity="error")
        with delivery(tmp_path, spec) as made:
            warned = incident(1, severity="warning")
            until(made, [warned, incident(2, severity="error")], lambda: len(known.bodies) == 1)
            worse = [incident(1, id=warned.id), incident(2, severity="error")]
            until(made, worse, lambda: len(known.bodies) == 2)
        assert [(each["rank"], each["severity"]) for each in known.json()] == [(2, "error"), (1, "critical")]


def test_an_alertmanager_gets_an_incident_that_ended_before_the_first_delivery(tmp_path: Path) -> None:
    with receiver("500") as known, delivery(tmp_path, ReceiverSpec("alertmanager", known.url)) as made:
        one = incident()
        until(made, [one], lambda: known.asked > 0)
        until(made, [over(one)], lambda: made.status()[0].waiting == 1)
        known.mood = "ok"
        until(made, [over(one)], lambda: made.status()[0].waiting == 0)
        bodies = known.json()
        assert bodies[0][0]["endsAt"] > bodies[-1][0]["endsAt"]


def test_a_command_gets_the_json_on_stdin(tmp_path: Path) -> None:
    out = tmp_path / "out"
    code = f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read())"
    with delivery(tmp_path / "state", ReceiverSpec("command", (sys.executable, "-c", code))) as made:
        until(made, [incident()], out.exists)
        until(made, [incident()], lambda: made.status()[0].waiting == 0)
    assert msgspec.json.decode(out.read_bytes())["status"] == "firing"


def test_a_command_that_fails_says_why(tmp_path: Path) -> None:
    code = "import sys; sys.exit('no mail \\x1b[31m server')"
    with delivery(tmp_path, ReceiverSpec("command", (sys.executable, "-c", code))) as made:
        until(made, [incident()], lambda: "exit status 1" in made.trouble)
        assert "mail" in made.trouble
        assert "\x1b" not in made.trouble


def test_a_state_folder_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    made = Delivery([hook("http://127.0.0.1:9")], "hosts.yaml", tmp_path / "file" / "state", QUICK)
    made.update([incident()])
    assert "not delivered" in made.trouble
    made.close()
