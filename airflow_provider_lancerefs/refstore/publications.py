"""Whether a branch was published: its lease, and the commit that shows it on the parent.

The commit names the branch's life and version in its transaction's properties, and its transaction
has a UUID that follows from the life, so it is found by listing names.
See docs/decisions/0005-publish.md.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from airflow_provider_lancerefs.refstore import committing, layout, refs, versions
from airflow_provider_lancerefs.refstore.comparing import compare
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import (
    ConflictError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
)
from airflow_provider_lancerefs.refstore.manifest import Feature, Manifest
from airflow_provider_lancerefs.refstore.models import (
    ENTERED_PUBLISHING_KEY,
    LEASE_OWNER_KEY,
    LEASE_UNTIL_KEY,
    PUBLISHED_FROM_KEY,
    PUBLISHED_VERSION_KEY,
    Branch,
    BranchState,
    Version,
)
from airflow_provider_lancerefs.refstore.plans import PublishStep
from airflow_provider_lancerefs.refstore.snapshot import Snapshot, read_snapshot, snapshot_of
from airflow_provider_lancerefs.refstore.storage import Entry
from airflow_provider_lancerefs.refstore.storage.concurrency import side_by_side
from airflow_provider_lancerefs.refstore.transactions import Transaction, read_transaction

PUBLISH_KEY = "lancerefs.publish"
STEP_KEY = "lancerefs.publish.step"
ATTEMPT_KEY = "lancerefs.publish.attempt"
NAME_KEY = "lancerefs.publish.branch"
MESSAGE_KEY = "__lance_commit_message"
ANCHOR = "anchor"
FENCE = "fence"
_FENCES = 1 << 62
_FENCE_BYTES = 7
_TRIES = 5


@dataclass(frozen=True, slots=True)
class Publication:
    """A commit on the parent that published a branch, as its transaction says.

    `attempt` is in the names of the files that it brought along.
    """

    version: int
    branch_version: int
    attempt: str


@dataclass(frozen=True, slots=True)
class Look:
    """What the parent shows of a branch, and whether all of its history since the fork is there.

    `head` is the newest version that was looked at: a publish that this does not show is above it.
    """

    found: Publication | None
    complete: bool
    head: Snapshot | None


def life(branch: Branch) -> str:
    """What no other branch, and no other life of this one, is called."""
    return json.dumps([list(pair) for pair in branch.identifier])


def identity(branch: Branch) -> str:
    """The UUID of every transaction that publishes this life of a branch."""
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"lancerefs:publish:{life(branch)}"))


def fence(branch: Branch) -> int:
    """A fragment that never is, named by every commit that may publish this life of a branch.

    Lance lets of two commits that remove the same fragment only one through.
    """
    digest = hashlib.sha256(life(branch).encode()).digest()
    return _FENCES + int.from_bytes(digest[:_FENCE_BYTES])


def properties(branch: Branch, version: int, step: str | None = None) -> dict[str, str]:
    """What a commit says of itself, so that it is known again."""
    said = {PUBLISH_KEY: f"{life(branch)}@{version}", NAME_KEY: branch.name}
    return said if step is None else {**said, STEP_KEY: step}


def take_lease(dataset: Dataset, branch: Branch, owner: str) -> Branch:
    """Compare-and-swap to `publishing`; raises ConflictError while somebody else's lease holds."""
    if branch.state.ending:
        raise ConflictError(f"The branch {branch.name!r} is being deleted.", ref=branch.name)
    if branch.state is BranchState.PUBLISHING and not lease_is_over(dataset, branch, owner):
        raise ConflictError(
            f"The branch {branch.name!r} is being published by somebody else, until "
            f"{_lease_end(dataset, branch):%H:%M:%S} UTC unless that takes longer: try again then.",
            ref=branch.name,
        )
    until = now() + dataset.publish_lease
    noted = {
        LEASE_OWNER_KEY: owner,
        LEASE_UNTIL_KEY: until.isoformat(timespec="milliseconds"),
        ENTERED_PUBLISHING_KEY: "true",
    }
    return refs.move_state(dataset.storage, branch, BranchState.PUBLISHING, noted)


def lease_is_over(dataset: Dataset, branch: Branch, owner: str | None = None) -> bool:
    """Whether a branch that is `publishing` may be taken over: its owner may be dead."""
    if owner is not None and is_held_by(branch, owner):
        return True
    return now() >= _lease_end(dataset, branch)


def is_held_by(branch: Branch, owner: str) -> bool:
    """Whether the branch is being published, under that owner's lease."""
    held = branch.metadata.get(LEASE_OWNER_KEY) == owner
    return held and branch.state is BranchState.PUBLISHING


def give_back(dataset: Dataset, branch: Branch) -> Branch:
    """Compare-and-swap from `publishing` to `open`: nothing was published."""
    return refs.move_state(dataset.storage, branch, BranchState.OPEN, _NO_LEASE)


def record(dataset: Dataset, branch: Branch, found: Publication) -> Branch:
    """Compare-and-swap to `published`, with what the first publish came to."""
    noted = {
        **_NO_LEASE,
        PUBLISHED_VERSION_KEY: str(found.version),
        PUBLISHED_FROM_KEY: str(found.branch_version),
    }
    return refs.move_state(dataset.storage, branch, BranchState.PUBLISHED, noted)


def recorded(branch: Branch) -> Publication | None:
    """What the ref says of the branch's publication."""
    version = branch.metadata.get(PUBLISHED_VERSION_KEY, "")
    source = branch.metadata.get(PUBLISHED_FROM_KEY, "")
    if branch.state is not BranchState.PUBLISHED or not (version.isdigit() and source.isdigit()):
        return None
    return Publication(int(version), int(source), "")


def look(dataset: Dataset, branch: Branch) -> Look:
    """Search the parent for the commit that published this life of the branch."""
    numbers = versions.list_manifests(dataset.storage, branch.parent)
    newest = max(numbers, default=branch.parent_version)
    since = range(branch.parent_version + 1, newest + 1)
    candidates = [one for one in reversed(since) if one in numbers]
    with side_by_side(dataset.storage) as pool:
        reading = pool.submit(_snapshot, dataset, branch.parent, numbers.get(newest))
        listing = pool.submit(_read_versions, dataset, branch) if candidates else None
    head, read = reading.result(), listing.result() if listing else []
    suspects = [*_suspects(candidates, head, read)]
    publications = (read_publication(dataset, branch, version) for version in suspects)
    found = next((one for one in publications if one is not None), None)
    if found is None and suspects:  # which a cleanup may have taken before they were read
        numbers = versions.list_manifests(dataset.storage, branch.parent)
    return Look(found, all(number in numbers for number in since), head)


def find_version(dataset: Dataset, branch: Branch) -> int | None:
    """The parent's version that published this life of a branch, whether the branch stands or not.

    None where the parent's history since the fork shows that none did; raises OutcomeUnknownError
    where parts of it are gone.
    """
    noted = recorded(branch)
    if noted is not None:
        return noted.version
    seen = look(dataset, branch)
    if seen.found is not None:
        return seen.found.version
    if seen.complete and versions.find_head(dataset.storage, branch.parent) is not None:
        return None
    raise OutcomeUnknownError(
        f"Whether {branch.name!r} was published cannot be known any more, for versions of "
        f"{branch.parent} since its fork were cleaned up: compare the rows.",
        ref=branch.name,
    )


def read_publication(dataset: Dataset, branch: Branch, number: int) -> Publication | None:
    """The publication of a branch that a version of its parent is, if it is one."""
    manifest = _manifest(dataset, branch.parent, number)
    if manifest is None:
        return None
    made_by = read_transaction(dataset.storage, branch.parent, manifest)
    said = published_by(made_by) if made_by else None
    if made_by is None or said is None or STEP_KEY in made_by.properties:
        return None
    whose, source = said
    if whose != life(branch):
        return None
    return Publication(number, source, made_by.properties.get(ATTEMPT_KEY, ""))


def published_by(transaction: Transaction) -> tuple[str, int] | None:
    """The life and version of the branch that a transaction says it publishes."""
    whose, _, version = transaction.properties.get(PUBLISH_KEY, "").rpartition("@")
    return (whose, int(version)) if whose and version.isdigit() else None


def shows_files(branch_head: Snapshot, fork: Snapshot, parent: Snapshot) -> bool:
    """Whether the parent has one of the data files that the branch made, under any name."""
    uris = {uri for fragment in parent.fragments.values() for uri in fragment.uris}
    names = {uri.rpartition("/")[2].partition("-")[2] for uri in uris}
    return any(
        file.uri in uris or file.name in names for file in compare(fork, branch_head).new_files()
    )


def shut_out(dataset: Dataset, branch: Branch, tries: int = _TRIES) -> None:
    """Commit nothing but the fence: whatever read the parent before can publish no more."""
    head = versions.find_head(dataset.storage, branch.parent)
    if head is None:
        return
    landing = committing.Landing(
        PublishStep.UPDATE, branch.parent, head.number, removed=(fence(branch),)
    )
    try:
        committing.land(dataset, landing, str(uuid.uuid4()), properties(branch, 0, FENCE))
    except (ConflictError, StorageError) as error:
        if isinstance(error, ConflictError) and tries > 1:
            if look(dataset, branch).found is None:
                shut_out(dataset, branch, tries - 1)
            return
        raise OutcomeUnknownError(
            f"Whether {branch.name!r} was published is not known, for {branch.parent} cannot be "
            "written to: try again, which looks first.",
            ref=branch.name,
        ) from error


def check_known(branch: Branch, seen: Look) -> None:
    """Raise OutcomeUnknownError where a publish may have landed in a history that is gone."""
    if seen.complete or branch.state is not BranchState.PUBLISHING:
        return
    raise OutcomeUnknownError(
        f"Whether {branch.name!r} was published cannot be known any more, for versions of "
        f"{branch.parent} since its fork were cleaned up: compare the rows, and publish those that "
        "are missing from a new branch.",
        ref=branch.name,
    )


def fork_snapshot(dataset: Dataset, branch: Branch) -> Snapshot | None:
    """The version that the branch was forked from, or the clone that the branch began with."""
    for name in (branch.parent, branch.name):
        version = Version(name, branch.parent_version, 0)
        try:
            return read_snapshot(dataset, version)
        except NotFoundError:
            continue
    return None


def head_snapshot(dataset: Dataset, name: str) -> Snapshot:
    """A branch's newest version."""
    version = versions.head(dataset.storage, name)
    return snapshot_of(dataset, version, versions.read_manifest(dataset.storage, version))


_NO_LEASE: Mapping[str, str | None] = {LEASE_OWNER_KEY: None, LEASE_UNTIL_KEY: None}


def _lease_end(dataset: Dataset, branch: Branch) -> datetime:
    try:
        until = datetime.fromisoformat(branch.metadata.get(LEASE_UNTIL_KEY, ""))
    except ValueError:
        return branch.state_since + dataset.publish_lease
    return until if until.tzinfo else branch.state_since + dataset.publish_lease


def _read_versions(dataset: Dataset, branch: Branch) -> list[int]:
    """What the transactions that may have published the branch read, as their files' names say."""
    folder = layout.in_branch(branch.parent, f"{layout.TRANSACTIONS}/")
    ending = f"-{identity(branch)}.txn"
    names = (one.path.rpartition("/")[2] for one in dataset.storage.list(folder))
    return [int(name.removesuffix(ending)) for name in names if name.endswith(ending)]


def _suspects(
    candidates: Sequence[int], head: Snapshot | None, read: Sequence[int]
) -> Iterator[int]:
    """The versions that may be the publication: all, unless transactions are files to be listed."""
    if head is not None and head.manifest.writer_flags & Feature.NO_TRANSACTION_FILES:
        yield from candidates
        return
    likely = {one + 1 for one in read}
    yield from (one for one in candidates if one in likely)
    if read:
        yield from (one for one in candidates if one not in likely and one > min(read))


def _snapshot(dataset: Dataset, branch: str, entry: Entry | None) -> Snapshot | None:
    """The snapshot of a manifest that was listed, or None where there was none, or is none now."""
    number = layout.manifest_number(entry.path) if entry else None
    if entry is None or number is None:
        return None
    try:
        return read_snapshot(dataset, Version(branch, number, entry.size))
    except NotFoundError:
        return None


def _manifest(dataset: Dataset, branch: str, number: int) -> Manifest | None:
    try:
        return versions.read_manifest(dataset.storage, Version(branch, number, 0))
    except NotFoundError:
        return None
