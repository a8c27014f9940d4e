"""Publishing a branch into its parent, so that it happens once and whole, or not at all.

Take the lease, and meanwhile look for an earlier publish and compare the three snapshots; bring the
files along, commit an empty anchor and then the change itself, look whether the files still stand,
and note the version on the ref. See docs/decisions/0005-publish.md.
"""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import NamedTuple, NoReturn

from airflow_provider_lancerefs.refstore import (
    carrying,
    committing,
    publications,
    refs,
    settling,
    versions,
)
from airflow_provider_lancerefs.refstore.attempting import attempt
from airflow_provider_lancerefs.refstore.comparing import ThreeWay, compare
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    FormatError,
    InvalidInputError,
    LanceRefsError,
    OutcomeUnknownError,
    PublishRefusedError,
    UnsupportedStoreError,
)
from airflow_provider_lancerefs.refstore.history import Parent
from airflow_provider_lancerefs.refstore.leases import Lease
from airflow_provider_lancerefs.refstore.models import (
    Branch,
    PublishResult,
    WriteTarget,
)
from airflow_provider_lancerefs.refstore.planning import Draft, plan
from airflow_provider_lancerefs.refstore.plans import (
    PublishPlan,
    Refusal,
    RefusalCode,
)
from airflow_provider_lancerefs.refstore.progress import Progress, silent
from airflow_provider_lancerefs.refstore.publications import Look, Publication
from airflow_provider_lancerefs.refstore.snapshot import Snapshot
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side
from airflow_provider_lancerefs.refstore.writers import writers_of

_TRIES = 10
_LONGEST_PAUSE = 0.5


@dataclass(frozen=True, slots=True)
class Request:
    """What a caller asks of a publish besides the branch."""

    message: str | None = None
    properties: Mapping[str, str] = field(default_factory=dict)
    require_writers: tuple[str, ...] = ()
    optimize_indices: bool = False
    progress: Progress = silent

    @property
    def noted(self) -> Mapping[str, str]:
        """What the commit says besides whose it is."""
        message = {publications.MESSAGE_KEY: self.message} if self.message else {}
        return {**message, **self.properties}


class _Sight(NamedTuple):
    """How things stand between a branch and its parent, which was opened at the same time."""

    said: PublishPlan
    draft: Draft | None
    seen: Look
    opening: Future[committing.Opened]


def plan_publish(dataset: Dataset, name: str, require_writers: Iterable[str] = ()) -> PublishPlan:
    """What publishing the branch would do now. Writes nothing, and takes no lease."""
    branch = refs.read_branch(dataset.storage, name)
    earlier = publications.recorded(branch)
    if earlier is not None:
        return _recorded(dataset, branch, earlier)
    return _without_writers(dataset, branch, require_writers) or _judged(dataset, branch)[0]


def publish(dataset: Dataset, name: str, request: Request) -> PublishResult:
    """Publish, or return what an earlier publish of the same version came to.

    Raises PublishRefusedError with the plan, leaving both sides as they were; ConflictError while
    somebody else publishes or deletes the branch; OutcomeUnknownError where it cannot be told
    whether an earlier publish landed.
    """
    result = _publish_once(dataset, name, request)
    if request.optimize_indices and (result.unindexed or result.already_published):
        committing.optimize_indices(dataset, result.parent)
        return replace(result, unindexed=0)
    return result


def _publish_once(dataset: Dataset, name: str, request: Request) -> PublishResult:
    _check_reachable(dataset)
    branch = refs.read_branch(dataset.storage, name)
    earlier = publications.recorded(branch)
    if earlier is not None:
        return _earlier(dataset, branch, earlier)
    said = _without_writers(dataset, branch, request.require_writers)
    if said is not None:
        raise PublishRefusedError.of(said)
    with side_by_side(dataset.storage) as pool:
        # What is seen before the lease is as good: a commit in between takes the anchor's place.
        seeing = pool.submit(_see, dataset, branch)
        lease = Lease(dataset, branch)
    try:
        return _publish_held(dataset, lease, request, seeing.result)
    except LanceRefsError as error:
        if not isinstance(error, OutcomeUnknownError):
            with contextlib.suppress(LanceRefsError):
                lease.give_back()
        there = refs.find_branch(dataset.storage, name)
        twins = publications.recorded(there) if there else None
        if there is None or twins is None or there.identifier != branch.identifier:
            raise
        return _earlier(dataset, there, twins)


def _publish_held(
    dataset: Dataset,
    lease: Lease,
    request: Request,
    see: Callable[[], _Sight],
    tries: int = _TRIES,
) -> PublishResult:
    request.progress("comparing the branch with its parent")
    said, draft, seen, opening = see()
    if said.published is None and lease.taken_over:
        publications.check_known(lease.branch, seen)
    if said.refusal is not None:
        raise PublishRefusedError.of(said)
    if seen.found is not None or said.published is not None:
        return _finish_found(dataset, lease, said, seen.found)
    if draft is None:
        lease.give_back()
        return _result(said, said.parent_version, published=False)
    parent = opening.result()
    landed = attempt(dataset, lease, said, draft, parent, request.noted, request.progress)
    if landed is not None:
        lease.record(landed)
        return _landed(said, draft, landed)
    if tries == 1:
        raise PublishRefusedError.of(_too_busy(said))
    time.sleep(random.uniform(0, _LONGEST_PAUSE / tries))
    return _publish_held(dataset, lease, request, partial(_see, dataset, lease.branch), tries - 1)


def _too_busy(said: PublishPlan) -> PublishPlan:
    return _with(
        said,
        RefusalCode.PARENT_TOO_BUSY,
        f"{said.parent} was written to during each of {_TRIES} attempts: try again later.",
    )


def _see(dataset: Dataset, branch: Branch) -> _Sight:
    with side_by_side(dataset.storage) as pool:
        opening = pool.submit(committing.open_head, dataset, branch.parent)
        return _Sight(*_judged(dataset, branch), opening)


def _judged(dataset: Dataset, branch: Branch) -> tuple[PublishPlan, Draft | None, Look]:
    """The plan as things stand, the draft of the commit if there is one to make, and the look.

    The parent's head is the newest version that the look saw: what a twin commits later is above
    it, and not taken for the parent's own.
    """
    with side_by_side(dataset.storage) as pool:
        reading = pool.submit(publications.head_snapshot, dataset, branch.name)
        forking = pool.submit(publications.fork_snapshot, dataset, branch)
        looking = pool.submit(publications.look, dataset, branch)
    ours, seen = reading.result(), looking.result()
    theirs = seen.head or _no_head(dataset, branch)
    return *_plan(dataset, branch, ours, theirs, seen, forking.result), seen


def _no_head(dataset: Dataset, branch: Branch) -> NoReturn:
    versions.head(dataset.storage, branch.parent)
    raise ConflictError(
        f"{branch.parent} was written to and cleaned up meanwhile: try again.", ref=branch.parent
    )


def _plan(
    dataset: Dataset,
    branch: Branch,
    ours: Snapshot,
    theirs: Snapshot,
    seen: Look,
    read_fork: Callable[[], Snapshot | None],
) -> tuple[PublishPlan, Draft | None]:
    said = PublishPlan(branch.name, ours.version.number, branch.parent, theirs.version.number)
    if seen.found is not None:
        return _published(said, seen.found), None
    fork = read_fork()
    if fork is None:
        return _with(said, RefusalCode.FORK_GONE, _fork_gone(branch)), None
    if not seen.complete and publications.shows_files(ours, fork, theirs):
        return replace(said, published=theirs.version.number), None
    try:
        both = _three_way(dataset, fork, ours, theirs)
    except FormatError as error:
        gone = error.ref in {one.deletion for one in fork.fragments.values()}
        code = RefusalCode.FORK_GONE if gone else RefusalCode.MISSING_FILE
        return _with(said, code, str(error)), None
    return plan(both, dataset.uri, lambda uris: carrying.sizes_of(dataset, uris))


def _three_way(dataset: Dataset, fork: Snapshot, ours: Snapshot, theirs: Snapshot) -> ThreeWay:
    parent = Parent(dataset, fork.version.number, theirs.version, fork)
    return ThreeWay(
        branch=compare(fork, ours),
        parent=compare(fork, theirs),
        blame=parent.blame,
        operations=cache(parent.operations),
    )


def _published(said: PublishPlan, found: Publication) -> PublishPlan:
    if found.branch_version == said.branch_version:
        return replace(said, published=found.version)
    return replace(
        _with(
            said,
            RefusalCode.ALREADY_PUBLISHED,
            f"{said.branch}@{found.branch_version} was published as {said.parent}@{found.version}; "
            f"what came after it, up to {said.branch_version}, needs a new branch.",
        ),
        published=found.version,
    )


def _recorded(dataset: Dataset, branch: Branch, earlier: Publication) -> PublishPlan:
    """What the ref records; a branch that went on since then is refused."""
    ours = versions.head(dataset.storage, branch.name).number
    said = PublishPlan(branch.name, ours, branch.parent, earlier.version)
    return _published(said, earlier)


def _earlier(dataset: Dataset, branch: Branch, earlier: Publication) -> PublishResult:
    said = _recorded(dataset, branch, earlier)
    if said.refusal is not None:
        raise PublishRefusedError.of(said)
    return _result(said, earlier.version, already_published=True)


def _finish_found(
    dataset: Dataset, lease: Lease, said: PublishPlan, found: Publication | None
) -> PublishResult:
    """What an earlier call committed, whose end it may not have lived to see."""
    version = said.published or said.parent_version
    if found is not None:
        settling.heal(dataset, lease.branch, found)
    lease.record(found or Publication(version, said.branch_version, ""))
    return _result(said, version, already_published=True)


def _without_writers(
    dataset: Dataset, branch: Branch, required: Iterable[str]
) -> PublishPlan | None:
    """The plan that refuses for want of writers; None where all are noted."""
    missing = sorted({*required} - writers_of(branch))
    if not missing:
        return None
    ours = versions.head(dataset.storage, branch.name).number
    theirs = versions.head(dataset.storage, branch.parent).number
    said = PublishPlan(branch.name, ours, branch.parent, theirs)
    reason = f"{', '.join(missing)} did not write to the branch {branch.name!r} yet."
    return _with(said, RefusalCode.WRITERS_MISSING, reason)


def write_target(dataset: Dataset, name: str) -> WriteTarget:
    """The dataset's root, and what the branch's manifest calls it."""
    ours = publications.head_snapshot(dataset, name)
    for number, base, is_dataset_root in ours.bases:
        if number is not None and is_dataset_root and base == dataset.uri:
            return WriteTarget(dataset.uri, number)
    raise FormatError(
        f"{ours.version} has no base path for the dataset's root: write into the branch's folder.",
        ref=name,
    )


def _check_reachable(dataset: Dataset) -> None:
    if dataset.uri.startswith("memory://"):
        raise UnsupportedStoreError(
            "pylance cannot commit to memory://, so nothing can be published there."
        )


def check_properties(properties: Mapping[str, str]) -> dict[str, str]:
    """Properties as a caller may give them: strings, and none of the library's own keys."""
    for key, value in properties.items():
        if not isinstance(key, str) or not isinstance(value, str) or key.startswith("lancerefs."):
            raise InvalidInputError(
                f"Properties are strings, and none starts with 'lancerefs.': {key!r} cannot be set."
            )
    return dict(properties)


def _landed(said: PublishPlan, draft: Draft, landed: Publication) -> PublishResult:
    indexed = bool(draft.both.theirs.manifest.indices)
    return replace(
        _result(said, landed.version),
        files_copied=said.files_to_copy,
        bytes_copied=said.bytes_to_copy,
        unindexed=len(draft.added) if indexed else 0,
    )


def _result(
    said: PublishPlan, version: int, *, published: bool = True, already_published: bool = False
) -> PublishResult:
    return PublishResult(
        branch=said.branch,
        branch_version=said.branch_version,
        parent=said.parent,
        version=version,
        published=published,
        already_published=already_published,
    )


def _with(said: PublishPlan, code: RefusalCode, reason: str) -> PublishPlan:
    return replace(said, refusal=Refusal(code, reason))


def _fork_gone(branch: Branch) -> str:
    return (
        f"{branch.source}, from which {branch.name!r} was forked, was cleaned up on both sides, so "
        "what the branch changed cannot be told."
    )
