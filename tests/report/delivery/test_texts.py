"""Texts for chats, bodies by template, and the settings that name receivers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from gpuwatch.hosts.receivers import ReceiverSpec
from gpuwatch.hosts.validation.errors import HostsError
from gpuwatch.report.delivery.incident_texts import texts_of
from gpuwatch.report.delivery.ledger import LedgerEntry
from gpuwatch.report.delivery.messages import incident_post
from gpuwatch.tui.preferences.file import as_lines, load
from tests.report.delivery.receivers import SECRET, incident

HOSTILE = "<!channel> *x* `y` @everyone [a](http://evil) {severity} \x1b[2J\n"


def entry(headline: str) -> LedgerEntry:
    one = incident(headline=headline, code="xid")
    place = (one.job, one.code, one.node, one.gpu, one.rank)
    return LedgerEntry("f00", place, one.first, one.severity, texts_of(one), one.last)


def test_a_body_by_template_is_json_whatever_the_values_hold() -> None:
    spec = ReceiverSpec("webhook", "http://h/", body={"content": '{status}: {headline} "{rank}"', "x": "{"})
    body = msgspec.json.decode(incident_post(spec, entry(HOSTILE), "hosts.yaml").body)
    assert body["content"].startswith("firing: <!channel>")
    assert "{severity}" in body["content"]
    assert body["content"].endswith('"1"')
    assert body["x"] == "{"


def test_slack_and_ntfy_texts_hold_no_markup_of_the_logs() -> None:
    slack = incident_post(ReceiverSpec("slack", "http://h/"), entry(HOSTILE), "hosts.yaml")
    text = msgspec.json.decode(slack.body)["text"]
    assert "&lt;!channel&gt;" in text
    assert text.startswith("*FIRING critical*: ")
    ntfy = incident_post(ReceiverSpec("ntfy", "http://h/t"), entry(HOSTILE + "ü"), "hosts.yaml")
    assert b"@everyone" not in ntfy.body
    assert b"http://" not in ntfy.body
    assert b"\x1b" not in ntfy.body
    assert ntfy.headers["Priority"] == "5"
    assert ntfy.headers["Title"].isascii()
    assert "\n" not in ntfy.headers["Title"]


LINKS = (
    "https://evil.example", "www.evil.example", "WWW.evil.example", "@everyone", "@here", ":tada:", "$x^2$",
    "mailto:a@b.c",
    "*b*", "_i_", "~s~", "**x**", "[a](b)", "||x||", "`c`",
)  # fmt: skip


@pytest.mark.parametrize("word", LINKS)
def test_no_word_of_a_log_is_markup_a_mention_or_a_link(word: str) -> None:
    one = entry(f"ValueError: {word} at 5")
    spec = ReceiverSpec("webhook", "http://h/", body={"content": "{markdown}"})
    content = msgspec.json.decode(incident_post(spec, one, "hosts.yaml").body)["content"]
    assert word not in content
    slack = msgspec.json.decode(incident_post(ReceiverSpec("slack", "http://h/"), one, "hosts.yaml").body)[
        "text"
    ]
    first = slack.splitlines()[0]
    assert first.count("`") == 2
    assert first.partition("`")[2].endswith("`"), "all of it is code"


def test_long_texts_are_cut() -> None:
    ntfy = incident_post(ReceiverSpec("ntfy", "http://h/t"), entry("x" * 100_000), "hosts.yaml")
    assert len(ntfy.body) < 4096


def test_a_password_in_a_url_becomes_a_header() -> None:
    spec = ReceiverSpec("webhook", f"https://bob:{SECRET}@hooks.example:8443/a/{SECRET}?k={SECRET}")
    made = incident_post(spec, entry("x"), "hosts.yaml")
    assert made.url == f"https://hooks.example:8443/a/{SECRET}?k={SECRET}"
    assert made.headers["Authorization"].startswith("Basic ")
    assert spec.name == "webhook hooks.example:8443"
    assert SECRET not in repr(spec) + repr(made)


def test_receivers_of_the_settings_file(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    file.write_text(
        f"""alerts:
- {{alertmanager: 'http://am:9093', min_severity: error}}
- webhook: https://hooks.example/{SECRET}
  headers: {{Authorization: Bearer {SECRET}}}
  body: {{text: "{{headline}}"}}
- command: [mail, -s, gpuwatch, oncall@example.org]
"""
    )
    loaded = load(file, {})
    kinds = [(each.kind, each.min_severity) for each in loaded.values.alerts]
    assert kinds == [("alertmanager", "error"), ("webhook", "warning"), ("command", "warning")]
    shown = str(as_lines(loaded))
    assert "hooks.example" in shown
    assert SECRET not in shown


@pytest.mark.parametrize(
    ("text", "word"),
    [
        (f"[{{slack: 'file:///{SECRET}'}}]", "URL"),
        (f"[{{slack: '{SECRET}'}}]", "URL"),
        ("[{min_severity: error}]", "exactly one"),
        ("[{slack: 'http://a/', ntfy: 'http://b/'}]", "exactly one"),
        ("[{webhook: 'http://a/', body: {t: '{headlin}'}}]", "headline"),
        ("[{slack: 'http://a/', body: {t: x}}]", "webhook"),
        ("[{slack: 'http://a/', min_severity: info}]", "critical"),
    ],
)
def test_what_is_no_receiver_is_refused_without_its_secrets(tmp_path: Path, text: str, word: str) -> None:
    (tmp_path / "config.yaml").write_text(f"alerts: {text}\n")
    with pytest.raises(HostsError, match=word) as raised:
        load(tmp_path / "config.yaml", {})
    assert SECRET not in str(raised.value)
