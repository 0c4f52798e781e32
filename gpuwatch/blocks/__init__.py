"""Blocks, the content of reports independent of the medium, and their text, Markdown and HTML."""
