"""Authenticates with keys and answers collected before the screen started."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

import paramiko
from msgspec import Struct

from gpuwatch.link.openssh.ssh_config import ResolvedHost
from gpuwatch.link.ssh.keys.keyring import Identity
from gpuwatch.link.ssh.transport.bounded_transport import shown
from gpuwatch.link.stream.carrier import CarrierError

Responder: TypeAlias = Callable[[str, str, "list[tuple[str, bool]]"], "list[str]"]
"""(title, instructions, [(prompt, echo)]) -> answers, for keyboard-interactive."""


PASSWORD_PROMPTS = 3
"""Password attempts per login, as OpenSSH's NumberOfPasswordPrompts (ssh_config(5))."""
MAX_REQUESTS = 16
"""Keyboard-interactive requests per login; PAM also sends texts without a prompt."""


class TooManyPromptsError(paramiko.SSHException):
    """Raised in the transport's thread, and ends it, if the server repeats its prompts too often."""


class NeedsAnswersError(CarrierError):
    """Raised if the server prompts, but the user can no longer be asked."""


@dataclass(frozen=True)
class Answers:
    """The means to answer a server that requires more than a key: a password, or asking the user."""

    password: str | None = field(default=None, repr=False)
    respond: Responder | None = field(default=None, repr=False)
    """Function that asks the user, called only before the screen starts."""


class _Proposal(Struct, frozen=True):
    method: str
    label: str
    attempt: Callable[[], Sequence[str]]
    """Function that tries the method; returns the methods still required, and raises if refused."""


def authenticate(
    transport: paramiko.Transport, host: ResolvedHost, identity: Identity, answers: Answers
) -> str:
    """Authenticate on a transport; return a description of the accepted method.

    Raises:
        CarrierError: No method was accepted; `NeedsAnswersError` if only prompts remain.
    """
    methods = _offered(transport, host)
    if not methods:
        return "none"
    remaining = _proposals(transport, host, identity, answers)
    passed: list[str] = []
    tried: list[str] = []
    while True:  # a server may want several methods, one after the other
        proposal = next((each for each in remaining if each.method in methods), None)
        if proposal is None:
            kind = NeedsAnswersError if "keyboard-interactive" in methods else CarrierError
            raise kind(_refusal(host, methods, passed, tried, identity), final=True)
        remaining.remove(proposal)
        try:
            methods = list(proposal.attempt())
        except paramiko.BadAuthenticationType as error:
            methods = error.allowed_types
        except TooManyPromptsError as error:
            raise CarrierError(f"{host.where} {error}", final=True) from error
        except (paramiko.SSHException, EOFError, OSError) as error:
            if not transport.is_active():
                raise _hung_up(host, proposal, tried, error) from error
            tried.append(proposal.label)
        else:
            passed.append(proposal.label)
            if not methods:
                return ", ".join(passed)


def _offered(transport: paramiko.Transport, host: ResolvedHost) -> Sequence[str]:
    try:
        return transport.auth_none(host.user)
    except paramiko.BadAuthenticationType as error:
        return error.allowed_types
    except (paramiko.SSHException, EOFError, OSError) as error:
        did = (
            "did not answer the login in time"
            if "timeout" in str(error).lower()
            else "closed the connection before the login"
        )
        raise CarrierError(f"{host.where} {did}; see sshd's log there") from error


def _proposals(
    transport: paramiko.Transport,
    host: ResolvedHost,
    identity: Identity,
    answers: Answers,
) -> list[_Proposal]:
    def with_key(key: paramiko.PKey) -> Callable[[], Sequence[str]]:
        return lambda: transport.auth_publickey(host.user, key)

    found = [
        _Proposal("publickey", f"publickey {each.label}", with_key(each.key)) for each in identity.candidates
    ]
    password = answers.password
    respond = answers.respond or (_one_secret(password) if password is not None else None)
    if respond is not None:
        found.append(
            _Proposal(
                "keyboard-interactive",
                "keyboard-interactive",
                lambda: transport.auth_interactive(host.user, respond),
            )
        )
    if password is not None:
        found.append(
            _Proposal(
                "password", "password", lambda: transport.auth_password(host.user, password, fallback=False)
            )
        )
    return found


def _one_secret(password: str) -> Responder:
    """Return a responder that answers a single hidden prompt with the password, others with empty text.

    It raises TooManyPromptsError beyond `PASSWORD_PROMPTS` passwords or `MAX_REQUESTS` requests.
    """
    sent = requests = 0

    def respond(_title: str, _instructions: str, prompts: list[tuple[str, bool]]) -> list[str]:
        nonlocal sent, requests
        requests += 1
        lone = len(prompts) == 1 and not prompts[0][1]
        sent += lone
        if sent > PASSWORD_PROMPTS:
            raise TooManyPromptsError(
                f"did not take the password in {PASSWORD_PROMPTS} tries; check it and start gpuwatch again"
            )
        if requests > MAX_REQUESTS:
            raise TooManyPromptsError(f"asked more than {MAX_REQUESTS} questions; the login was aborted")
        return [password] if lone else ["" for _ in prompts]

    return respond


def _hung_up(host: ResolvedHost, proposal: _Proposal, tried: Sequence[str], error: Exception) -> CarrierError:
    count = len(tried) + 1
    if count > 1:
        return CarrierError(
            f"{host.where} closed the connection after {count} login attempts "
            f"({', '.join((*tried, proposal.label))}): "
            "too many keys for its MaxAuthTries; name the right one with identity_file and IdentitiesOnly",
            final=True,
        )
    detail = shown(str(error)) or "no reason given"
    return CarrierError(
        f"{host.where} closed the connection during the login with {proposal.label} ({detail})"
    )


def _refusal(
    host: ResolvedHost,
    methods: Sequence[str],
    passed: Sequence[str],
    tried: Sequence[str],
    identity: Identity,
) -> str:
    offers = shown(", ".join(methods))
    sentence = f"{host.where} refused the login"
    if passed:
        sentence += f" after accepting {', '.join(passed)}"
    sentence += f"; it offers {offers}; tried: {', '.join(tried) or 'nothing, for there is no usable key'}"
    if identity.unusable:
        sentence += f"; not usable: {', '.join(identity.unusable)}"
    if "publickey" in methods:
        return sentence + (
            f". Add your public key to {host.user}'s authorized_keys there, or name another key with "
            "identity_file or user in the hosts file"
        )
    return sentence + (
        ". Start gpuwatch with --ask-password (one-time codes are asked for jump hosts only, and only at "
        "the start), or use `link: command` with ssh for this node"
    )
