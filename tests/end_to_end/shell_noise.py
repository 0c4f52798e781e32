"""What login shells print and read, each with the file that makes it."""

from __future__ import annotations

NOISE = "printf '\\033]0;rc was here\\007\\033[31mWELCOME, pick [a]b'; echo; echo to stderr >&2"


RC_FILES = {
    "sh": (".profile", NOISE),
    "bash": (".bashrc", NOISE),
    "zsh": (".zshenv", NOISE),
    "fish": (".config/fish/config.fish", NOISE.replace("echo to stderr >&2", "echo to stderr 1>&2")),
    "tcsh": (".tcshrc", "echo 'WELCOME, pick [a]b'; set prompt='> '"),
}
