"""`gpuwatch watch`: opens the screens."""

# ruff: noqa: PLC0415  a command imports only what it uses, so that --help and usage errors stay fast

from __future__ import annotations

import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from gpuwatch.cli.shared.history_option import history_option
from gpuwatch.cli.shared.receivers import alertmanager_option, delivering
from gpuwatch.cli.shared.screens import (
    Beside,
    ScreenOptions,
    can_draw,
    screen_options,
    show_session,
    why_not_drawn,
)
from gpuwatch.cli.shared.source import Source, source_options
from gpuwatch.cli.shared.source_flags import upload_option

if TYPE_CHECKING:
    from gpuwatch.diagnose.hang.combined_verdict import HangReport
    from gpuwatch.diagnose.model.incident import Incident
    from gpuwatch.report.evidence.run import EvidenceRun
    from gpuwatch.session import Session


@click.command()
@source_options
@upload_option
@history_option
@alertmanager_option
@screen_options
def watch(source: Source, **look: Any) -> int:  # noqa: ANN401 - what click parsed
    """Open the screens: a heat map of all GPUs, a table of all nodes; `?` lists the keys.

    Without a terminal it prints the report of `gpuwatch once` and exits.
    """
    return show(source, **look)


def show(source: Source, *, alertmanagers: tuple[str, ...] = (), **look: Any) -> int:  # noqa: ANN401 - what click parsed
    """Show the screens of a source; without a terminal print the report of `once`. Return the exit status.

    `alertmanagers`: URLs that also receive the incidents.
    """
    if not can_draw():
        from gpuwatch.cli.monitor.once import report_once

        unseen = sys.stdout.isatty() and not sys.stderr.isatty()
        click.echo(
            f"gpuwatch: {why_not_drawn()}; printing the report of `gpuwatch once` instead", err=not unseen
        )
        return report_once(source)
    from gpuwatch.cli.config.settings import loaded_for_screens
    from gpuwatch.session.session_recording import SessionRecording

    preferred = loaded_for_screens()
    session = opened(source)
    try:
        with delivering(source, alertmanagers, preferred.values.alerts) as delivery:
            recording = None if session.recorded else SessionRecording(session)
            beside = Beside(partial(begin_evidence, session), delivery, recording)
            return show_session(session, preferred, beside, ScreenOptions(**look))
    finally:
        session.close()


def begin_evidence(
    session: Session, incident: Incident | None, job: str | None, hang: HangReport | None
) -> EvidenceRun:
    """Start and return the bundle of `incident`, or of `job` if that is None.

    `hang`: the newest answers of the ranks; None: the last hang report that the session has of the job.
    """
    from gpuwatch.report.evidence.run import begin_bundle, recording_cut

    known = session.hang_report(job if incident is None else incident.job)
    return begin_bundle(session, incident, job, hang or known, recording_cut(session))


def opened(source: Source) -> Session:
    """Return the session of the screens: live, with its recent past kept, or the replay of a recording."""
    if source.recording is None:
        session = source.session()
        session.keep_stream()
        return session
    replay = source.replay(source.recording, from_start=True)
    replay.player.play()
    return replay
