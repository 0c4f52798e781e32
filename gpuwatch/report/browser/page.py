"""The HTML page of a viewer (textual-serve's terminal, nothing from other hosts) and its headers."""

from __future__ import annotations

import html
import importlib.util
from pathlib import Path

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; font-src 'self'; "
    "img-src 'self' data:; connect-src 'self' {socket}; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
"""The Content-Security-Policy of the page.

xterm.js creates style elements; Safari needs the websocket to be named.
"""
HEADERS = {
    "Server": "gpuwatch",
    "Referrer-Policy": "no-referrer",  # the address holds the token
    "X-Content-Type-Options": "nosniff",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-store",
}
STYLE = """
@font-face {font-family: "Roboto Mono"; font-weight: 100 700;
  src: url("static/fonts/RobotoMono-VariableFont_wght.ttf")}
@font-face {font-family: "Roboto Mono"; font-style: italic;
  src: url("static/fonts/RobotoMono-Italic-VariableFont_wght.ttf"); font-weight: 100 700}
html, body {margin: 0; height: 100%; background: #121212; color: #e0e0e0; overflow: hidden;
  font: 15px "Roboto Mono", monospace}
.textual-terminal {position: absolute; inset: 0; opacity: 0}
.-first-byte .textual-terminal {opacity: 1}
.notice {position: absolute; inset: 0; display: flex; flex-direction: column; gap: 1em; align-items: center;
  justify-content: center; z-index: 10}
.notice p {margin: 0; max-width: 40em; text-align: center}
.notice a {color: #66b2ff}
.-first-byte .opening, .closed, .-closed .opening {display: none}
.-closed .closed {display: flex; background: #121212dd}
"""
PAGE = """<!DOCTYPE html>
<html lang="en">
<head>
<meta charset="utf-8">
<title>{title}</title>
<link rel="icon" href="data:,">
<link rel="stylesheet" href="static/css/xterm.css">
<style>{style}</style>
<script src="static/js/textual.js"></script>
<script src="focus.js"></script>
</head>
<body>
<div class="notice opening"><p>Opening {title}&hellip;</p><p id="start"></p></div>
<div class="notice closed"><p>This view has ended.</p><p><a href="./">Open it again</a></p></div>
<div id="terminal" class="textual-terminal" data-session-websocket-url="{socket}" data-font-size="{size}">
</div>
</body>
</html>
"""
FOCUS_SCRIPT = """
// Keys go to the terminal without a click first, once its websocket is open.
const focusTerminal = () => {
  const state = document.body.classList;
  if (state.contains("-first-byte") && !state.contains("-closed"))
    document.querySelector(".xterm-helper-textarea")?.focus();
};
window.addEventListener("load", () => {
  new MutationObserver(focusTerminal).observe(document.body, {attributes: true, attributeFilter: ["class"]});
});
window.addEventListener("focus", focusTerminal);
"""
MIN_FONT, MAX_FONT, USUAL_FONT = 6, 60, 15


def assets() -> Path | None:
    """Return the folder of textual-serve's scripts, styles and fonts; None if it is not installed."""
    spec = importlib.util.find_spec("textual_serve")
    if spec is None or spec.origin is None:
        return None
    return Path(spec.origin).parent / "static"


def page(title: str, socket: str, font_size: str) -> str:
    """Return the HTML page. `font_size`: pixels as text, from the query string; bounded, with a default."""
    size = int(font_size) if font_size.isdecimal() and len(font_size) < 4 else USUAL_FONT
    return PAGE.format(
        title=html.escape(title),
        style=STYLE,
        socket=html.escape(socket),
        size=min(MAX_FONT, max(MIN_FONT, size)),
    )
