"""The source options: which nodes to watch and how to connect, as one decorator for every command."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

import click
from msgspec import Struct
from msgspec.structs import replace

from gpuwatch.cli.shared import exit_codes
from gpuwatch.cli.shared.history_option import with_history
from gpuwatch.cli.shared.source_flags import (
    LOGIN,
    NODES,
    PROMETHEUS,
    SOURCE_PARAMETERS,
    WATCHING,
    Decorator,
    SourceOptions,
    at_option,
)
from gpuwatch.shell_command import command_line

if TYPE_CHECKING:
    from gpuwatch.hosts.plan import Plan
    from gpuwatch.link.stream.options import Ask, LinkOptions
    from gpuwatch.session import Session
    from gpuwatch.session.hang.py_spy_upload import Program
    from gpuwatch.session.replay_session import ReplaySession


class Source(Struct, frozen=True):
    """The source on the command line, checked and ready to connect."""

    plan: Plan
    options: LinkOptions
    ask: Ask | None
    """A function that asks for a passphrase; None without a terminal."""
    py_spy: Program | None = None
    """The py-spy program that is uploaded to nodes without one."""
    recording: Path | None = None
    """The recording that is shown in place of live nodes; the plan is the recorded one."""
    at: str | None = None
    """The requested time of the recording, as typed."""

    def session(self) -> Session:
        """Return a session over the plan or recording, not started. Passphrases are asked for here.

        Raises:
            click.ClickException: A link, key, rule pack or recording cannot be used.
        """
        if self.recording is not None:
            return self.replay(self.recording)
        from gpuwatch.link.stream.carrier import CarrierError
        from gpuwatch.rules.model.errors import RulesError
        from gpuwatch.session import Session

        try:
            return Session(self.plan, self.options, self.ask, self.py_spy)
        except CarrierError as error:
            raise Refusal([str(error)]) from error
        except RulesError as error:
            raise Refusal(list(error.problems)) from error

    def replay(self, recording: Path, *, from_start: bool = False) -> ReplaySession:
        """Return a session over the recording, paused at the time of `--at`, else at its end.

        Args:
            recording: The file.
            from_start: Without `--at`, pause at the beginning instead of the end.

        Raises:
            Refusal: The recording cannot be read.
            click.BadParameter: The time is invalid or outside of the recording.
        """
        from gpuwatch.cli.shared.moment import moment_typed
        from gpuwatch.link.recording.schema import RecordingError
        from gpuwatch.session.replay_session import ReplaySession

        try:
            session = ReplaySession(recording)
        except RecordingError as error:
            raise Refusal([str(error)]) from error
        session.player.pause()
        if self.at is not None:
            session.go_to(moment_typed(self.at, session.recording))
        elif not from_start:
            session.go_to(session.recording.last / 1e6)
        return session


class Refusal(click.ClickException):
    """Raised for problems that stop a command before it connects; printed one per line, exit status USAGE."""

    exit_code = exit_codes.USAGE

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))

    def show(self, file: IO[Any] | None = None) -> None:
        """Print the lines unchanged: `file:line:col: text` stays clickable in an editor."""
        click.echo(self.message, file=file, err=file is None)


def source_options(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator that adds all source options to a command, which receives them as `source: Source`."""
    return _with_source(command, (*NODES, *PROMETHEUS, *WATCHING, at_option, *LOGIN))


def node_options(command: Callable[..., int]) -> Callable[..., int]:
    """Decorator like `source_options`, for a command that samples nothing and follows no logs."""
    return _with_source(command, (*NODES, *LOGIN))


def _with_source(command: Callable[..., int], decorators: tuple[Decorator, ...]) -> Callable[..., int]:
    @functools.wraps(command)
    def with_source(*args: object, **given: Any) -> int:  # noqa: ANN401  what click parsed, of any type
        chosen = {name: given.pop(name) for name in SOURCE_PARAMETERS if name in given}
        py_spy, history = program(given.pop("upload_py_spy", None)), given.pop("history_from", None)
        source = replace(read_source(SourceOptions(**chosen)), py_spy=py_spy)
        options = with_history(source.options, history, recorded=source.recording is not None)
        source = replace(source, options=options)
        return command(*args, source=source, **given)

    made: Callable[..., int] = with_source
    for decorate in reversed(decorators):
        made = decorate(made)
    return made


def read_source(given: SourceOptions) -> Source:
    """Return the source that SOURCE, or one of the options of `NODES` and `PROMETHEUS`, names.

    Raises:
        click.UsageError: None or several of them were given, or options that do not go together.
        Refusal: The source has problems.
    """
    named = (given.named, given.local or None, given.demo or None, given.slurm, given.kube, given.prometheus)
    if sum(each is not None for each in named) != 1:
        raise click.UsageError(
            "give exactly one of SOURCE (a hosts file or node range), --local, --demo, --slurm, --kube, "
            "--prometheus."
        )
    if given.prometheus is not None:
        return prometheus_source(given.prometheus, given)
    if given.selector is not None or given.no_ssh or (given.namespace is not None and given.kube is None):
        raise click.UsageError("--selector and --no-ssh need --prometheus, --namespace needs --kube.")
    if given.named is not None and is_file_of_recording(given.named):
        return recorded_source(
            Path(given.named), given.at, live=given.interval is not None or bool(given.logs)
        )
    if given.at is not None:
        raise click.UsageError("--at needs a recording as SOURCE.")
    check_login(given.ssh_config, ask_password=given.ask_password)
    scheduled = given.slurm is not None or given.kube is not None
    plan = (
        scheduled_plan(given.slurm, given.kube, given.namespace)
        if scheduled
        else load_plan(given.named, local=given.local)
    )
    if given.interval is not None:
        plan = replace(plan, interval_s=given.interval)
    if given.logs:
        plan = replace(plan, log_options=tuple(log_glob(each, given.local) for each in given.logs))
    if plan.rules:
        check_rules(plan.rules)
    from gpuwatch.link.stream.options import LinkOptions

    return Source(plan, with_login(LinkOptions(), given), ask if sys.stdin.isatty() else None)


def with_login(options: LinkOptions, given: SourceOptions) -> LinkOptions:
    """Return the options, updated with the given options of the login."""
    config = options.ssh_config if given.ssh_config is None else str(given.ssh_config)
    return replace(
        options,
        accept_new_host_keys=given.accept_new_host_keys,
        ask_password=given.ask_password,
        ssh_config=config,
    )


def check_login(ssh_config: Path | None, *, ask_password: bool) -> None:
    """Check the login options.

    Raises:
        Refusal: The ssh configuration does not exist, or there is no terminal to ask for a password.
    """
    if ssh_config is not None and not ssh_config.is_file():
        raise Refusal([f"{ssh_config}: no such file; -F names an ssh configuration file"])
    if ask_password and not sys.stdin.isatty():
        raise Refusal(["--ask-password needs a terminal; without one, use keys or an ssh agent"])


def prometheus_source(url: str, given: SourceOptions) -> Source:
    """Return the source with the nodes that a Prometheus knows now.

    Raises:
        click.UsageError: The URL is invalid, or an option was given that it cannot serve.
        Refusal: The Prometheus does not answer, or knows no node; or the ssh configuration does not exist.
    """
    if given.at is not None or given.logs or given.ask_password:
        raise click.UsageError("--at, --log and --ask-password cannot be used with --prometheus.")
    check_login(given.ssh_config, ask_password=False)
    from gpuwatch.hosts.receivers import ReceiverError
    from gpuwatch.link.prometheus.client import PrometheusError
    from gpuwatch.link.prometheus.discovery import discover

    try:
        plan, options = discover(url, given.selector or "", given.interval)
        options = replace(with_login(options, given), enter_nodes=not given.no_ssh)
        return Source(plan, options, None)
    except ReceiverError as error:
        raise click.BadParameter(f"{error}.", param_hint="--prometheus") from None
    except PrometheusError as error:
        raise Refusal([f"--prometheus: {error}"]) from error


def is_file_of_recording(named: str) -> bool:
    """Return True if `named` is a file that is a recording.

    Raises:
        Refusal: The file has the suffix of a recording but is none.
    """
    if not Path(named[:4096]).is_file():
        return False
    from gpuwatch.link.recording.schema import is_recording

    found = is_recording(Path(named))
    if not found and named.endswith(".gpw"):
        as_log = command_line(["gpuwatch", "scan", named])
        raise Refusal([f"{named}: not a recording; `{as_log}` reads it as a log"])
    return found


def recorded_source(path: Path, at: str | None, *, live: bool = False) -> Source:
    """Return the source of a recording.

    `at` is not checked. `live`: options for live nodes were given.

    Raises:
        click.UsageError: `live` is True.
        Refusal: The recording cannot be read.
    """
    if live:
        raise click.UsageError("-d and --log cannot be used with a recording.")
    from gpuwatch.link.recording.reader import Recording
    from gpuwatch.link.recording.schema import RecordingError
    from gpuwatch.link.stream.options import LinkOptions

    try:
        with contextlib.closing(Recording(path)) as recording:
            return Source(recording.plan, LinkOptions(), None, recording=path, at=at)
    except RecordingError as error:
        raise Refusal([str(error)]) from error


def program(path: Path | None) -> Program | None:
    """Return the py-spy program at `path` to upload; None if `path` is None.

    Raises:
        Refusal: The file is no py-spy that can be uploaded.
    """
    if path is None:
        return None
    from gpuwatch.session.hang.py_spy_upload import UploadError, load

    try:
        return load(path)
    except UploadError as error:
        raise Refusal([f"--upload-py-spy {path}: {error}; install it with pip install py-spy"]) from error


def scheduled_plan(slurm: str | None, kube: str | None, namespace: str | None) -> Plan:
    """Return the plan of a Slurm job, or if `slurm` is None of the pods that `kube` selects.

    Raises:
        Refusal: There is no job or pod, it has no nodes, or the scheduler does not answer.
    """
    from gpuwatch.cli.shared.slurm_jobs import slurm_plan
    from gpuwatch.hosts.kube.plan import kube_plan
    from gpuwatch.hosts.validation.errors import HostsError

    try:
        return kube_plan(kube or "", namespace) if slurm is None else slurm_plan(slurm)
    except HostsError as error:
        raise Refusal(list(error.problems)) from error


def load_plan(named: str | None, *, local: bool) -> Plan:
    """Return the plan of the file or nodes `named`, else of this machine or the demo; or raise `Refusal`."""
    if named is None:
        from gpuwatch.hosts.builtin import demo_plan, local_plan

        return local_plan() if local else demo_plan()
    from gpuwatch.hosts.load import load_source
    from gpuwatch.hosts.validation.errors import HostsError

    try:
        return load_source(named)
    except HostsError as error:
        raise Refusal(list(error.problems)) from error


def log_glob(text: str, local: bool) -> str:
    """Return the glob of `--log`; with `local` a relative one is made absolute.

    Raises:
        Refusal: It is not an absolute path, or contains an unknown placeholder.
    """
    from gpuwatch.hosts.keys import LOG

    if local and not text.startswith(("/", "~")):
        text = str(Path.cwd() / text)
    if not LOG.fits(text):
        raise Refusal([f"--log must be {LOG.what}, not {text!r}"])
    return text


def check_rules(paths: tuple[str, ...]) -> None:
    """Check the user's own rule packs before anything is connected.

    Raises:
        Refusal: A pack has problems; it lists all.
    """
    from gpuwatch.rules.load import load_packs
    from gpuwatch.rules.model.errors import RulesError

    try:
        load_packs([Path(path) for path in paths])
    except RulesError as error:
        raise Refusal(list(error.problems)) from error


def ask(prompt: str, secret: bool) -> str:
    """Ask the user on the terminal (stderr) and return the answer, which is not echoed if `secret`."""
    answer: str = click.prompt(
        prompt.rstrip(": "), hide_input=secret, default="", show_default=False, err=True
    )
    return answer
