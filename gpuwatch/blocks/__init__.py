"""What is shown to a person, independent of the medium: blocks, and their text, Markdown and HTML."""
