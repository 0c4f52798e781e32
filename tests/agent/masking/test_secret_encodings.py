"""A secret whose name or value is written in an encoding is masked like one in plain text."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Callable
from time import process_time
from urllib.parse import quote

import pytest

from gpuwatch.agent.logs.lines.splitter import line_text
from gpuwatch.agent.logs.matching.chunk import Chunk
from gpuwatch.agent.masking.secret_masking import masked

SECRET = "Zx9tQ4wLm27"  # noqa: S105 - no password of anybody
BOLD = str.maketrans({chr(ord("a") + n): chr(0x1D41A + n) for n in range(26)})


def each(form: str) -> Callable[[str], str]:
    """Every character of the name in this form of its number."""
    return lambda name: "".join(form.format(ord(char)) for char in name)


NAMES: dict[str, Callable[[str], str]] = {
    "overstruck": lambda name: "".join(f"{char}\b{char}" for char in name),
    "underlined": lambda name: "".join(f"_\b{char}" for char in name),
    "underlined after": lambda name: "".join(f"{char}\b_" for char in name),
    "mistyped": lambda name: f"{name[:2]}X\b{name[2:]}",
    "mistyped, shown": lambda name: f"{name[:2]}X^H{name[2:]}",
    "mistyped, of rsyslog": lambda name: f"{name[:2]}X#010{name[2:]}",
    "coloured": lambda name: f"{name[:3]}\\x1b[1m{name[3:]}\\033[0m",
    "bytes": each("\\x{:02x}"),
    "octal": each("\\{:03o}"),
    "json": each("\\u{:04x}"),
    "json in json": each("\\\\u{:04x}"),
    "javascript": each("\\u{{{:x}}}"),
    "python": each("\\U{:08x}"),
    "url": each("%{:02x}"),
    "url in url": each("%25{:02x}"),
    "url of a script": each("%u{:04x}"),
    "html": each("&#{};"),
    "html in html": each("&amp;#{};"),
    "html, hexadecimal": each("&#x{:X};"),
    "html, padded": each("&#{:07d};"),
    "mail": lambda name: f"={ord(name[0]):02X}{name[1:]}",
    "shell": lambda name: f"{name[:3]}''{name[3:]}",
    "shell, escaped": lambda name: f"{name[:3]}\\{name[3:]}",
    "bold letters": lambda name: name.translate(BOLD),
    "bold letters in json": lambda name: json.dumps(name.translate(BOLD))[1:-1],
    "marks": lambda name: "".join(f"{char}\u0332" for char in name),
    "wide in url": lambda name: quote("".join(chr(ord(char) + 0xFEE0) for char in name)),
    "invisible in json": lambda name: f"{name[:3]}\\u200b{name[3:]}",
    "greek": lambda name: name.replace("o", "\u03bf").replace("a", "\u03b1"),
}
TEXTS = (
    f"password&#61;{SECRET}", f"password&equals;{SECRET}", f"api&lowbar;key={SECRET}",
    f"password%3D{SECRET}", f"password=3D{SECRET}",
    f"https%3A%2F%2Fada%3A{SECRET}%40host%2Fx", f"Authorization%3A%20Bearer%20{SECRET}",
    f"password=\\u0022two words {SECRET}\\u0022", f"password=%22two%20words%20{SECRET}%22",
    f"password=&quot;two words {SECRET}&quot;", f'password="a%22b {SECRET}"',
    html.escape(json.dumps({"password": SECRET})), json.dumps(json.dumps({"pass\u200bword": SECRET})),
)  # fmt: skip


@pytest.mark.parametrize("encoding", NAMES)
def test_a_name_in_this_encoding_hides_no_value(encoding: str) -> None:
    for name in ("password", "api_key", "auth_token"):
        text = f"x {NAMES[encoding](name)}={SECRET} y"
        assert SECRET not in masked(text), text
        assert SECRET not in line_text(text.encode())
        chunk = Chunk(text.encode(), 0, b"")
        assert SECRET not in chunk.text(*chunk.line_around(0))


@pytest.mark.parametrize("text", TEXTS)
def test_an_encoded_separator_quotation_or_form_hides_no_value(text: str) -> None:
    assert SECRET not in masked(text)


@pytest.mark.parametrize(
    "data", [f"--password={SECRET}", f"python\0--password\0{SECRET}", f'{{"password": "{SECRET}"}}']
)
def test_a_secret_in_a_word_of_digits_or_base64_is_masked(data: str) -> None:
    """The kernel's audit log writes arguments as hexadecimal digits, Kubernetes files as base64."""
    assert data.encode().hex().upper() not in masked(f"proctitle={data.encode().hex().upper()}")
    assert base64.b64encode(data.encode()).decode() not in masked(
        f"x: {base64.b64encode(data.encode()).decode()}"
    )


@pytest.mark.parametrize(
    "text",
    [
        "token indices sequence length is longer than the maximum (730 > 512)", "password is required",
        'password = os.environ["DB_PASSWORD1"]', "tokens_per_second: 12345.6", "KAGGLE_KEY not found",
        "GET /v1/x?name=%70lain&a=%41 200", "C:\\pass\\x70\\160", "loss=2.3 size=20GB bs=32k &amp; a\\u0041b",
        "70617373 6c6f737320302e32", "bG9zcyAyLjMgc3RlcA==", "caf\u00e9 \u03bb=0.1 \u00b5s",
        "\u6a5f\u68b0\u5b66\u7fd2 \ud55c\uad6d\uc5b4 \u2588\u258f", "it''s a\\b",
    ],
)  # fmt: skip
def test_text_without_a_secret_stays_encoded(text: str) -> None:
    assert masked(text) == text


@pytest.mark.long
@pytest.mark.parametrize(
    "piece",
    ["%70", "%", "%25", "\\x70", "\\", "\\\\\\\\u0070", "&#112;", "&#", "a\b", "\b", "\u2408", "70", "YWJj",
     "\ufdfa", "p\u0332", "\U0001d429", "a''", "\\x1b[", "=70a", "password=%70"],
)  # fmt: skip
def test_an_encoded_line_costs_few_times_a_plain_one(piece: str) -> None:
    def cost_s(text: str) -> float:
        taken = []
        for _ in range(3):
            began = process_time()
            masked(text)
            taken.append(process_time() - began)
        return min(taken)

    plain = cost_s(("password step 12 loss 2.3 " * 700)[:16384])
    assert cost_s((piece * 16384)[:16384]) < 12 * plain
