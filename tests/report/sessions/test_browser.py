"""The report in a real Chromium: light and dark, wide and narrow."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from gpuwatch.blocks.html import html
from gpuwatch.report.sessions.document import build_document
from gpuwatch.runs.sessions.find import find_sessions
from tests.packages import path_of
from tests.runs.sessions.written import (
    MAIN,
    MULTI,
    MULTIGPU,
    PERFORMANCE,
    write_documented_pair,
    write_session,
)
from tests.servers.chromium import chromium

LEAST_CONTRAST = 4.5
"""Of text to its background (WCAG 2, AA)."""
FACTS = """
(() => {
  const rgb = text => text.match(/[\\d.]+/g).map(Number);
  const luminance = ([r, g, b]) => {
    const linear = v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
    const [x, y, z] = [r, g, b].map(v => linear(v / 255));
    return 0.2126 * x + 0.7152 * y + 0.0722 * z;
  };
  const behind = node => {
    for (let at = node; at; at = at.parentElement) {
      const colour = rgb(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] > 0) return colour;
    }
    return [255, 255, 255];
  };
  document.querySelectorAll("details").forEach(each => { each.open = true; });
  const low = [], wide = [];
  for (const node of document.querySelectorAll("body *")) {
    const own = [...node.childNodes].some(each => each.nodeType === 3 && each.textContent.trim());
    if (!own || node.tagName === "title" || !node.getClientRects().length) continue;
    const style = getComputedStyle(node), svg = node instanceof SVGElement;
    const [one, two] = [luminance(rgb(svg ? style.fill : style.color)), luminance(behind(node))];
    const ratio = (Math.max(one, two) + 0.05) / (Math.min(one, two) + 0.05);
    if (ratio < CONTRAST) low.push([node.tagName, node.textContent.slice(0, 40), ratio]);
    const box = node.getBoundingClientRect();
    if (!node.closest(".scroll") && (box.right > innerWidth + 1 || box.left < -1))
      wide.push([node.tagName, node.textContent.slice(0, 40), box.right]);
  }
  const text = document.querySelector(".chart text");
  return JSON.stringify({
    low, wide, width: document.documentElement.scrollWidth, inner: innerWidth,
    page: luminance(behind(document.body)),
    chart_text_px: text ? text.getBoundingClientRect().height : null,
    blue: getComputedStyle(document.documentElement).getPropertyValue("--line-0").trim(),
  });
})()
""".replace("CONTRAST", str(LEAST_CONTRAST))


@pytest.mark.long
@pytest.mark.skipif(path_of("chromium") is None, reason="needs chromium")
@pytest.mark.timeout(600)
def test_the_page_is_legible_in_light_and_dark_wide_and_narrow(tmp_path: Path) -> None:
    write_documented_pair(tmp_path)
    logs = {"main": MAIN, "multigpu": MULTIGPU, "performance": PERFORMANCE}
    wide = {"name": "a-name-without-any-blank-" * 6, "configuration": {"k": "v" * 400}}
    write_session(tmp_path, MULTI, wide, **logs)
    file = tmp_path / "page.html"
    file.write_text(html(build_document(find_sessions((), tmp_path).sessions)))

    async def look() -> None:
        async with chromium(tmp_path / "profile") as browser:
            page = await browser.page("about:blank")
            for scheme in ("light", "dark"):
                for width in (400, 1280):
                    feature = {"name": "prefers-color-scheme", "value": scheme}
                    await page.call("Emulation.setEmulatedMedia", features=[feature])
                    size = {"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": False}
                    await page.call("Emulation.setDeviceMetricsOverride", **size)
                    await page.open(file.as_uri())
                    ready = "document.readyState === 'complete' && innerWidth"
                    while await page.evaluate(ready) != width:
                        await asyncio.sleep(0.05)
                    found = json.loads(await page.evaluate(FACTS))
                    place = (scheme, width)
                    assert (place, found["low"], found["wide"]) == (place, [], [])
                    assert found["width"] <= found["inner"], place
                    assert (found["page"] < 0.05) == (scheme == "dark"), place
                    assert found["chart_text_px"] >= 8, place
            assert page.problems == []
            assert {each.partition(":")[0] for each in page.requested} <= {"file", "about"}

    asyncio.run(look())
