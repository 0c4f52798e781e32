"""Asks the user a jump host's questions before the screen starts."""

from __future__ import annotations

from gpuwatch.link.stream.options import Ask
from gpuwatch.plain import plain

MAX_PROMPTS = 8
"""Prompts per request; a password, a code and a choice are three."""
MAX_CHARACTERS = 500
"""Most characters of a prompt's text, which comes from a host that is not trusted yet."""


class Prompter:
    """Answers keyboard-interactive prompts through `ask`."""

    def __init__(self, where: str, ask: Ask) -> None:
        self._where = where
        self._ask = ask
        self._interrupted: BaseException | None = None

    def respond(self, title: str, instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        """Ask each prompt in turn and return the answers, at most `MAX_PROMPTS`, the rest empty.

        It runs in paramiko's thread, so an interruption is stored, not raised.
        """
        heading = " ".join(part for part in (_shown(title), _shown(instructions)) if part)
        answers = []
        for prompt, echo in prompts[:MAX_PROMPTS]:
            question = " ".join(part for part in (f"{self._where}:", heading, _shown(prompt)) if part)
            answers.append(self._answer(f"{question} ", secret=not echo))
        return answers + [""] * (len(prompts) - len(answers))

    def raise_if_interrupted(self) -> None:
        """Raise what interrupted the questions (Ctrl-C, end of input), if anything did."""
        if self._interrupted is not None:
            raise self._interrupted

    def _answer(self, question: str, *, secret: bool) -> str:
        if self._interrupted is not None:
            return ""
        try:
            return self._ask(question, secret)
        except BaseException as error:  # raised again in the thread that waits for the answers
            self._interrupted = error
            return ""


def _shown(text: str) -> str:
    return plain(text[:MAX_CHARACTERS]).strip()
