"""What tools put before every line of a log."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from gpuwatch.runs.files.margins import form_of, without_margin

LOG = [f"[rank{n % 4}]: step {n} loss {4 / (n + 1):.3f}" for n in range(40)]
LOG[30:33] = ["Traceback (most recent call last):", '  File "a.py", line 3, in f', "KeyError: 'x'"]


def text(lines: list[str]) -> bytes:
    return "".join(f"{line}\n" for line in lines).encode()


@pytest.mark.parametrize(
    "before",
    [
        lambda n: f"{n + 1:6}\t",
        lambda n: f"{n + 1}:",
        lambda n: f"{3 * n + 8}-",
        lambda n: f"{n + 900:>7} ",
        lambda n: f"[{n * 1.5:8.2f}s] ",
        lambda n: f"{n * 0.25:.3f} ",
        lambda _: "> ",
    ],
)
@pytest.mark.parametrize("size", [1 << 20, 700])
def test_a_margin_is_taken_away(before: Callable[[int], str], size: int) -> None:
    marked = text([before(n) + line for n, line in enumerate(LOG)])
    pieces = [marked, b""] if size > len(marked) else [marked[:size], marked[size:]]
    assert b"".join(without_margin(iter(pieces))) == text(LOG)


@pytest.mark.parametrize(
    "lines",
    [
        LOG,
        [f"{n}: loss {4 / n:.3f}, 0.2 avg" for n in range(1, 40)],
        [f"{n}\t{4 / n:.3f}\t0.2" for n in range(1, 40)],
        [f"{n} loss {4 / n:.3f}" for n in range(1, 40)],
        [f"[{n * 2.0:12.6f}] mlx5_core 0000:1b:00.0: [rank{n}]" for n in range(40)],
        [f"| {n} | rank {n} |" for n in range(40)],
        [f"{n % 4}: [rank{n % 4}]: step {n}" for n in range(40)],
        [f"{n % 4}: 2026-05-05 10:00:{n:02} step {n}" for n in range(40)],
    ],
)
def test_numbers_of_steps_tasks_and_the_kernel_are_no_margin(lines: list[str]) -> None:
    assert form_of(text(lines)) is None
    assert b"".join(without_margin(iter([text(lines)]))) == text(lines)
