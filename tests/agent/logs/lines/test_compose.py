"""The prefix of docker compose names a service, not a node."""

from __future__ import annotations

import pytest

from gpuwatch.agent.logs.lines.normalise import messages


@pytest.mark.parametrize(
    ("line", "text", "host"),
    [
        (b"llm-server-1  | loading 12 shards", "loading 12 shards", None),
        (b"tensor-serve-on-xpu  | loading 12 shards", "loading 12 shards", None),
        (b"node-1 | loading 12 shards", "loading 12 shards", "node-1"),
        (b"gpu-17 | loading 12 shards", "loading 12 shards", "gpu-17"),
    ],
)
def test_a_service_is_no_node(line: bytes, text: str, host: str | None) -> None:
    ((found, speaker),) = messages(line)[0]
    assert (found, speaker.host) == (text, host)
