"""Passwords and keyboard-interactive: asked before the screen starts, never after."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuwatch.hosts.plan import NodeSpec
from gpuwatch.link.ssh.authentication import MAX_REQUESTS, PASSWORD_PROMPTS
from gpuwatch.link.ssh.dialing import SshDialing
from gpuwatch.link.ssh.prompter import MAX_CHARACTERS, MAX_PROMPTS, Prompter
from gpuwatch.link.stream.carrier import CarrierError
from gpuwatch.plain import plain
from tests.link.ssh.dial import dialing, failure, refusal, until
from tests.link.ssh.login.asked import Asked
from tests.link.ssh.login.asking_server import Asking, asking_server
from tests.sentences import Sentences
from tests.servers.sshd import Client, Sshd, make_key, public_key


def know(client: Client, name: str, asking: Asking, key: Path) -> NodeSpec:
    client.add_host(name, asking.port, "ada")
    client.trust(f"[127.0.0.1]:{asking.port} {public_key(key)}")
    return NodeSpec(name)


@pytest.fixture
def client(tmp_path: Path) -> Client:
    return Client(tmp_path / "client")


@pytest.fixture
def host_key(tmp_path: Path) -> Path:
    return make_key(tmp_path / "asking_host")


@pytest.mark.parametrize(
    "methods", ["password", "keyboard-interactive", "publickey,keyboard-interactive,password"]
)
def test_one_password_asked_once(client: Client, host_key: Path, methods: str, sentences: Sentences) -> None:
    word = "s3cret"
    asking = Asking(methods=methods, prompts=(("Password: ", False),), answers=(word,), password=word)
    with asking_server(asking, host_key):
        spec = know(client, "by-password", asking, host_key)
        ask = Asked(word)
        with dialing(spec, client.options(ask_password=True), ask) as dial:
            carrier = dial("true")
            assert carrier.facts.authenticated_by in methods
            carrier.close()
        sentences(ask.questions)


def test_a_password_is_no_one_time_code(client: Client, host_key: Path) -> None:
    asking = Asking(prompts=(("Code: ", True), ("PIN: ", False)), answers=("s3cret", "s3cret"))
    with asking_server(asking, host_key):
        spec = know(client, "codes", asking, host_key)
        error = refusal(spec, client.options(ask_password=True), ask=Asked("s3cret"))
        assert error.final
        assert "s3cret" not in str(error)


@pytest.mark.parametrize(("echo", "passwords"), [(False, PASSWORD_PROMPTS), (True, 0)])
def test_a_node_that_asks_without_end_is_given_up(
    client: Client, host_key: Path, echo: bool, passwords: int
) -> None:
    asking = Asking(prompts=(("Password: ", echo),), asks_again=10_000)
    with asking_server(asking, host_key):
        spec = know(client, "insatiable", asking, host_key)
        error = refusal(spec, client.options(ask_password=True), ask=Asked("s3cret"))
    assert error.final
    assert asking.asked.count(("s3cret",)) == passwords
    assert len(asking.asked) <= MAX_REQUESTS
    assert "s3cret" not in str(error)


@pytest.mark.parametrize("stall", ["login", "channel", "command"])
def test_a_stalled_server_is_not_reported_as_closed(
    client: Client, host_key: Path, stall: str, sentences: Sentences
) -> None:
    with asking_server(Asking(methods="", stalls=frozenset((stall,))), host_key) as asking:
        client.add_host("stalls", asking.port, "ada", "ConnectTimeout 1")
        client.trust(f"[127.0.0.1]:{asking.port} {public_key(host_key)}")
        error = refusal(NodeSpec("stalls"), client.options())
    assert not error.final
    assert "closed" not in str(error)
    assert "MaxSessions" not in str(error)
    sentences(str(error))


def test_the_second_question_of_one_login_still_gets_the_password(client: Client, host_key: Path) -> None:
    asking = Asking(prompts=(("Password: ", False),), answers=("s3cret",), asks_again=PASSWORD_PROMPTS - 1)
    with asking_server(asking, host_key):
        spec = know(client, "twice", asking, host_key)
        with dialing(spec, client.options(ask_password=True), Asked("s3cret")) as dial:
            dial("true").close()
    assert asking.asked == [("s3cret",)] * PASSWORD_PROMPTS


def test_without_answers_the_sentence_names_the_remedy(client: Client, host_key: Path) -> None:
    with asking_server(Asking(), host_key) as asking:
        error = refusal(know(client, "node", asking, host_key), client.options())
        assert error.final
        assert "it offers keyboard-interactive" in str(error)
        assert "--ask-password" in str(error)


def test_a_jump_host_asks_a_person_before_the_screen(
    client: Client, host_key: Path, tmp_path: Path, sentences: Sentences
) -> None:
    asking = Asking(prompts=(("Code: ", True), ("PIN: ", False)), answers=("123456", "99"), partial_key=True)
    with asking_server(asking, host_key), Sshd(tmp_path / "node", client=client, names=("a", "b")) as node:
        know(client, "bastion", asking, host_key)
        ask = Asked("123456", "99")
        specs = [NodeSpec(name, jump="bastion") for name in node.names]
        everyone = SshDialing(specs, client.options(), ask)
        try:
            assert [secret for _, secret in ask.questions] == [False, True]
            sentences(ask.questions[0][0])
            for spec in specs:
                carrier = everyone.dialer(spec)("echo in")
                assert carrier.recv(10) == b"in\n"
                carrier.close()
            assert asking.logins == 1

            for (
                transport
            ) in asking.running:  # it dies: nobody is asked again, the sentence says why it stays away
                transport.close()
            dial = everyone.dialer(specs[0])
            until(lambda: "restart gpuwatch" in str(failure(dial)), "the death is noticed")
            assert failure(dial).final
            assert len(ask.questions) == 2
        finally:
            everyone.close()


def test_ctrl_c_at_a_question_leaves(client: Client, host_key: Path) -> None:
    def interrupted(_prompt: str, _secret: bool) -> str:
        raise KeyboardInterrupt

    with asking_server(Asking(), host_key) as asking:
        know(client, "bastion", asking, host_key)
        with pytest.raises(KeyboardInterrupt):
            SshDialing([NodeSpec("node", jump="bastion")], client.options(), interrupted)


def test_a_jump_host_that_is_down_does_not_stop_the_start(client: Client) -> None:
    client.add_host("bastion", 1, "ada")
    everyone = SshDialing([NodeSpec("node", jump="bastion")], client.options(), Asked())
    with pytest.raises(CarrierError, match="connection refused"):
        everyone.dialer(NodeSpec("node", jump="bastion"))("true")
    everyone.close()


def test_a_host_asks_little_and_cannot_steer_the_terminal_with_it() -> None:
    asked: list[str] = []

    def answer(prompt: str, _secret: bool) -> str:
        asked.append(prompt)
        return "x"

    prompts = [("\x1b]0;title\x07\u202ecode" + "p" * 100_000, False)] * 1000
    answers = Prompter("jump", answer).respond("t\x1b[2J" * 100_000, "\x9b2J" * 100_000, prompts)
    assert len(answers) == 1000
    assert len(asked) == answers.count("x") == MAX_PROMPTS
    assert {prompt.startswith("jump: ") and prompt == plain(prompt) for prompt in asked} == {True}
    assert max(map(len, asked)) < 4 * MAX_CHARACTERS
