"""One attempt at a publish: bring the files, anchor, commit, and find out what came of it."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import replace

from airflow_provider_lancerefs.refstore import carrying, committing, publications, versions
from airflow_provider_lancerefs.refstore.carrying import Cargo
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    LanceRefsError,
    PublishRefusedError,
)
from airflow_provider_lancerefs.refstore.leases import Lease
from airflow_provider_lancerefs.refstore.models import Version
from airflow_provider_lancerefs.refstore.planning import Draft
from airflow_provider_lancerefs.refstore.plans import (
    PublishPlan,
    PublishStep,
    Refusal,
    RefusalCode,
)
from airflow_provider_lancerefs.refstore.progress import Progress
from airflow_provider_lancerefs.refstore.publications import Publication

_LANCE_SAYS_NO = "Invalid user input"


def attempt(
    dataset: Dataset,
    lease: Lease,
    said: PublishPlan,
    draft: Draft,
    parent: committing.Opened,
    noted: Mapping[str, str],
    progress: Progress,
) -> Publication | None:
    """Bring the files and commit; None where the parent moved, and nothing is left behind.

    `parent` was opened before, at whichever version.
    """
    cargo = Cargo(dataset, draft, uuid.uuid4().hex, said.parent_version + 1)
    landing = _prepared(dataset, lease, cargo, parent, progress)
    if landing is None:
        return None
    properties = {
        **noted,
        **publications.properties(lease.branch, said.branch_version),
        publications.ATTEMPT_KEY: cargo.attempt,
    }
    try:
        identity = publications.identity(lease.branch)
        version = committing.land(dataset, landing, identity, properties, through=parent)
    except LanceRefsError as error:
        landed = _landed_all_the_same(dataset, lease, said, cargo, error)
        if landed is None:
            return None
        version = landed.version
    carrying.mend(cargo, progress)
    return Publication(version, said.branch_version, cargo.attempt)


def _prepared(
    dataset: Dataset, lease: Lease, cargo: Cargo, parent: committing.Opened, progress: Progress
) -> committing.Landing | None:
    """The commit to make, its files in place, on an anchor that nobody else keeps.

    Lance forgets what happened since a version that a tag or a fork keeps, once the versions after
    it are cleaned up; with an empty one of our own it cannot. None where that came too late.
    """
    landing, reservation = cargo.landing(publications.fence(lease.branch)), cargo.reservation()
    anchor = committing.Landing(
        PublishStep.UPDATE, landing.branch, cargo.read_version - 1, added=reservation
    )
    source = cargo.draft.both.ours.version.number
    said = publications.properties(lease.branch, source, publications.ANCHOR)
    try:
        carrying.carry(cargo, progress, lease.keep)
        lease.keep()
        progress("committing")
        version = committing.land(dataset, anchor, str(uuid.uuid4()), said, through=parent)
        if version == cargo.read_version:
            return cargo.with_reserved(landing, _reserved(dataset, cargo) if reservation else ())
    except LanceRefsError as error:
        carrying.take_back(cargo)
        if not _has_moved(dataset, cargo, error):
            raise
        return None
    carrying.take_back(cargo)
    return None


def _landed_all_the_same(
    dataset: Dataset, lease: Lease, said: PublishPlan, cargo: Cargo, error: LanceRefsError
) -> Publication | None:
    """What became of a commit that failed, or whose reply was lost; None to try once more.

    A request that is still under way could land after the look, and then need its files: a version
    of our own in the place that it was to take keeps it out.
    """
    moved = _has_moved(dataset, cargo, error)
    if not isinstance(error, ConflictError):
        publications.shut_out(dataset, lease.branch)
    found = publications.look(dataset, lease.branch).found
    if found is not None and found.attempt == cargo.attempt:
        return found
    carrying.take_back(cargo)
    if found is not None or moved:
        return None
    if _LANCE_SAYS_NO in str(error):
        reason = f"Lance refused the commit: {error.__cause__}"
        refusal = Refusal(RefusalCode.LANCE_REFUSED, reason)
        raise PublishRefusedError.of(replace(said, refusal=refusal)) from error
    raise error


def _has_moved(dataset: Dataset, cargo: Cargo, error: LanceRefsError) -> bool:
    if isinstance(error, ConflictError):
        return True
    head = versions.head(dataset.storage, cargo.draft.both.theirs.version.branch)
    return head.number > cargo.read_version


def _reserved(dataset: Dataset, cargo: Cargo) -> range:
    """The row ids that the anchor moved the parent's counter past."""
    theirs = cargo.draft.both.theirs
    version = Version(theirs.version.branch, cargo.read_version, 0)
    anchor = versions.read_manifest(dataset.storage, version)
    return range(theirs.manifest.next_row_id, anchor.next_row_id)
