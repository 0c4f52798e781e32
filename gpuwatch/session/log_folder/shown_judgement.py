"""Converts the judgement of a scan for the screens: sanitized texts, one job, openable lines."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
from msgspec import structs
from msgspec.structs import replace

from gpuwatch.diagnose.model.alert import Alert, Proof
from gpuwatch.diagnose.past_jobs.judgement import Judgement
from gpuwatch.runs.scan.result import Scan
from gpuwatch.session.log_folder.report import UNNAMED_NODE
from gpuwatch.wire.codec import sanitized_value


def shown_judgement(judgement: Judgement, scan: Scan, job: str, share: float) -> Judgement:
    """Return the judgement for the screens; class, rank and node of every incident stay the same.

    Args:
        judgement: The judgement on the files that are read.
        scan: Lists the files, under whose nodes the screens show them.
        job: Name of the job.
        share: How much of the files is read, 0 to 1; below 1 every headline states it.
    """
    so_far = "" if share >= 1.0 else f"so far ({share:.0%} read): "
    homes = {file.name: file.node or UNNAMED_NODE for file in scan.files}
    jobs = tuple(
        each._replace(tracks=()) for each in judgement.jobs
    )  # these fields are long, and no screen shows them
    found = msgspec.convert(sanitized_value(msgspec.to_builtins(replace(judgement, jobs=jobs))), Judgement)
    folders = {None, *(each.name for each in found.jobs)}  # the screens list one job: the headline names them
    incidents = tuple(
        structs.replace(
            each,
            job=job if each.job in folders else each.job,
            headline=f"{so_far}{each.headline}",
            cause=None if each.cause is None else _shown(each.cause, job, homes),
            alerts=tuple(_shown(alert, job, homes) for alert in each.alerts),
        )
        for each in found.incidents
    )
    outside = tuple(
        _shown(structs.replace(alert, job=None) if alert.job in folders else alert, job, homes)
        for alert in found.outside
    )
    return replace(found, incidents=incidents, outside=outside)


def _shown(alert: Alert, job: str, homes: Mapping[str, str]) -> Alert:
    """Return the alert with the job's name; its proofs refer to the nodes that list their files."""
    proofs = tuple(_placed(proof, homes) for proof in alert.proof)
    return structs.replace(alert, job=alert.job or job, proof=proofs)


def _placed(proof: Proof, homes: Mapping[str, str]) -> Proof:
    home = homes.get(proof.file or "")
    return proof if home is None or home == proof.node else structs.replace(proof, node=home)
