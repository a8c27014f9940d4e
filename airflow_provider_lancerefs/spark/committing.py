"""The one commit of a write, made once however often, and by however many, it is asked for.

Commit an empty anchor, look whether the write landed, commit the write upon the anchor with a fence
in it; look whether the branch still stands; remove what tasks left that died or ran twice. See
docs/decisions/0006-spark-writes.md.
"""

from __future__ import annotations

import random
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.refstore import (
    ConflictError,
    LanceRefsError,
    NotFoundError,
    OutcomeUnknownError,
    StorageError,
    layout,
    versions,
)
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.models import PUBLISHED_FROM_KEY, BranchState, Version
from airflow_provider_lancerefs.refstore.storage import Entry, open_storage
from airflow_provider_lancerefs.spark import operations
from airflow_provider_lancerefs.spark.landings import (
    ATTEMPT_KEY,
    WRITE_KEY,
    Landing,
    fence,
    look,
    transaction_id,
    write_key,
)
from airflow_provider_lancerefs.spark.preparing import (
    check_open,
    field_ids,
    open_version,
    standing_branch,
)
from airflow_provider_lancerefs.spark.writing import Write, Written

if TYPE_CHECKING:
    import lance
    from lance.fragment import FragmentMetadata

_STEP_KEY = "lancerefs.write.step"
_TRIES = 10
_LONGEST_PAUSE = 0.5


def commit(write: Write, messages: Sequence[Written]) -> int:
    """Land the write, unless it has landed already; the version as which it did.

    Raises ConflictError where the branch went or the table changed, OutcomeUnknownError where a
    reply was lost and no more could be learnt. Only the latter leaves files behind.
    """
    site = Site.of(write)
    try:
        landing = site.land(messages)
    except OutcomeUnknownError:
        raise
    except LanceRefsError:
        site.remove_own_files(None)
        raise
    site.remove_own_files(landing)
    remove_dead_attempts(
        site.dataset, write.home, write.branch, write.life, write.write_id, landing
    )
    site.check_standing_after(landing.version)
    return landing.version


def abort(write: Write, *, may_have_landed: bool) -> None:
    """Remove this attempt's files, unless it landed: its reply may have been all that was lost."""
    site, landing = Site.of(write), None
    if may_have_landed:
        try:
            landing = site.settle()
        except NotFoundError:
            landing = None  # the branch is gone, and with it whatever landed there
    site.remove_own_files(landing)


def remove_dead_attempts(
    dataset: Dataset, home: str, branch: str, life: str, write_id: str, landing: Landing
) -> None:
    """Remove the files of attempts of a write that did not land, now that none can any more.

    Where history is gone one may have landed unseen: its files stay for the sweep.
    """
    found = _files(dataset, home, write_key(branch, life, write_id))
    others = [entry for name, entry in found.items() if name not in landing.files]
    if others and landing.exact and look(dataset, branch, write_id).complete:
        dataset.storage.delete_many(others)


def _files(dataset: Dataset, home: str, prefix: str) -> Mapping[str, Entry]:
    folder = f"{home}/{layout.DATA}/".removeprefix(f"{dataset.uri}/")
    entries = dataset.storage.list(f"{folder}{prefix}")
    return {entry.path.removeprefix(folder): entry for entry in entries}


@dataclass(frozen=True, slots=True)
class Site:
    """The branch that a write goes to."""

    dataset: Dataset
    write: Write

    @classmethod
    def of(cls, write: Write) -> Site:
        options = dict(write.storage_options)
        return cls(Dataset(open_storage(write.uri, options), options), write)

    def land(self, messages: Sequence[Written]) -> Landing:
        """Commit, or find the commit of another attempt of the same write."""
        write = self.write
        try:
            if write.read_version is None:
                return self._create(messages)
            return self._keep_trying(messages)
        except ConflictError:
            found = self._look_anywhere()
            if found is None:
                raise
            return found  # a twin landed, and took our files, which can land no more

    def _keep_trying(self, messages: Sequence[Written]) -> Landing:
        write = self.write
        for tries in range(1, _TRIES + 1):
            landing = self._try(messages)
            if landing is not None:
                return landing
            time.sleep(random.uniform(0, _LONGEST_PAUSE * tries / _TRIES))
        raise ConflictError(
            f"{write.branch} of {write.uri} was written to during each of {_TRIES} attempts: try "
            "again later.",
            ref=write.branch,
        )

    def settle(self) -> Landing | None:
        """What became of a commit whose reply may be lost; where nothing did, nothing will.

        Raises OutcomeUnknownError where that cannot be known.
        """
        write = self.write
        for _ in range(_TRIES):
            head = versions.find_head(self.dataset.storage, write.branch)
            if head is None:
                return None
            found = self._look()
            if found is not None:
                return found
            try:
                self._commit_nothing(head.number, "fence", fence(write.write_id))
            except operations.OvertakenError:
                continue
            except StorageError as error:
                raise self._unknown() from error
            return self._look()
        raise self._unknown()

    def remove_own_files(self, landing: Landing | None) -> None:
        """Remove this attempt's files, but for those that landed."""
        if landing and landing.attempt == self.write.attempt and not landing.exact:
            return  # which of them a version needs cannot be told any more
        keep = landing.files if landing else frozenset[str]()
        found = self._files(self.write.attempt)
        self.dataset.storage.delete_many(entry for name, entry in found.items() if name not in keep)

    def check_standing_after(self, version: int) -> None:
        """Look, after the commit, that the branch was not deleted, or published without it."""
        branch = standing_branch(self.dataset, self.write.branch, self.write.life)
        published = branch.metadata.get(PUBLISHED_FROM_KEY, "") if branch else ""
        if branch and branch.state is BranchState.PUBLISHED and int(published or 0) < version:
            raise ConflictError(
                f"The branch {branch.name!r} was published while it was being written to, without "
                "this write: write to a new branch.",
                ref=branch.name,
            )

    def _try(self, messages: Sequence[Written]) -> Landing | None:
        """Land, or find out why not; None to try once more."""
        write = self.write
        head = versions.head(self.dataset.storage, write.branch)
        self._check_takes_writes()
        fragments, replaced = self._fragments(messages), operations.replaced_rows(messages)
        try:
            anchor = self._commit_nothing(head.number, "anchor")
            found = self._look()
            if found is not None:
                return found
            opened = open_version(self.dataset, write.branch, anchor)
            self._check_still_fits(opened)
            operation = operations.landing(write, opened, [*fragments.values()], replaced)
            version = self._commit(anchor, operation)
        except operations.OvertakenError:
            return None
        except StorageError:
            landed = self.settle()
            if landed is None:
                raise
            return landed
        return Landing(version, write.attempt, frozenset(fragments))

    def _create(self, messages: Sequence[Written]) -> Landing:
        """Commit a table's first version, which only one can."""
        write = self.write
        fragments = self._fragments(messages)
        try:
            version = self._commit(0, operations.creation(write, [*fragments.values()]))
        except (operations.OvertakenError, StorageError) as error:
            found = self._look_anywhere()
            if found is not None:
                return found
            if versions.find_head(self.dataset.storage, write.branch) is None:
                raise self._unknown() from error
            raise ConflictError(
                f"Somebody else made a table at {write.uri} meanwhile: write again.",
                ref=write.branch,
            ) from error
        return Landing(version, write.attempt, frozenset(fragments))

    def _check_takes_writes(self) -> None:
        branch = standing_branch(self.dataset, self.write.branch, self.write.life)
        if branch is not None:
            check_open(branch)

    def _check_still_fits(self, now: lance.LanceDataset) -> None:
        """The columns are those that the files were written for, and rows to replace stand."""
        write = self.write
        if field_ids(now) != write.field_ids or not now.schema.equals(write.schema):
            raise ConflictError(
                f"The columns of {write.branch} are not those for which rows were written: write "
                "again.",
                ref=write.branch,
            )
        if write.merge and self._rows_of(now.version) != self._rows_of(write.read_version or 0):
            raise ConflictError(
                f"Somebody else wrote to {write.branch} while rows were being matched: merge "
                "again.",
                ref=write.branch,
            )

    def _rows_of(self, version: int) -> object:
        exact = Version(self.write.branch, version, 0)
        return versions.read_manifest(self.dataset.storage, exact).fragments

    def _fragments(self, messages: Sequence[Written]) -> dict[str, FragmentMetadata]:
        """What tasks wrote, by file, once every file was seen."""
        there = self._files(self.write.attempt)
        written = [file for message in messages for file in message.files]
        gone = [file.name for file in written if file.name not in there]
        if gone:
            raise ConflictError(
                f"{len(gone)} of the {len(written)} files that were written are gone, so nothing "
                "was committed: write again.",
                ref=self.write.branch,
            )
        return {
            file.name: operations.fragment(self.write, file, there[file.name].size)
            for file in written
        }

    def _look_anywhere(self) -> Landing | None:
        """As `_look`, where there may be no table, or no branch any more."""
        try:
            return self._look()
        except NotFoundError:
            return None

    def _look(self) -> Landing | None:
        return look(self.dataset, self.write.branch, self.write.write_id).found

    def _files(self, prefix: str) -> Mapping[str, Entry]:
        return _files(self.dataset, self.write.home, prefix)

    def _commit(self, read_version: int, operation: lance.LanceOperation.BaseOperation) -> int:
        said = {WRITE_KEY: self.write.write_id, ATTEMPT_KEY: self.write.attempt}
        identity = transaction_id(self.write.write_id)
        return operations.commit(self.write, self._uri, read_version, operation, identity, said)

    def _commit_nothing(self, read_version: int, step: str, *removed: int) -> int:
        operation = operations.nothing(removed)
        said = {_STEP_KEY: step, ATTEMPT_KEY: self.write.attempt}
        identity = str(uuid.uuid4())
        return operations.commit(self.write, self._uri, read_version, operation, identity, said)

    @property
    def _uri(self) -> str:
        return self.dataset.at(layout.branch_root(self.write.branch))

    def _unknown(self) -> OutcomeUnknownError:
        return OutcomeUnknownError(
            f"Whether rows were written to {self.write.branch} of {self.write.uri} is not known: "
            "run the job again, which looks first.",
            ref=self.write.branch,
        )
