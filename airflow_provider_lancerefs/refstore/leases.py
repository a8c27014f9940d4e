"""The lease on a branch that is being published."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable

from airflow_provider_lancerefs.refstore import publications, refs, settling
from airflow_provider_lancerefs.refstore.dataset import Dataset, now
from airflow_provider_lancerefs.refstore.errors import ConflictError, NotFoundError
from airflow_provider_lancerefs.refstore.models import Branch, BranchState
from airflow_provider_lancerefs.refstore.publications import Publication

_TRIES = 5
_RENEWALS = 3


class Lease:
    """The `publishing` state of a branch, held by this call and renewed as long as it works.

    A ref that changed is no loss as long as the lease on it is still ours: somebody may have set
    its metadata.
    """

    def __init__(self, dataset: Dataset, branch: Branch) -> None:
        self._dataset = dataset
        self._owner = uuid.uuid4().hex
        self.taken_over = branch.state is BranchState.PUBLISHING
        self.branch = publications.take_lease(dataset, branch, self._owner)
        self._since = now()

    def keep(self) -> None:
        """Renew before it runs out; raises ConflictError if somebody else took it over."""
        if now() - self._since >= self._dataset.publish_lease / _RENEWALS:
            self._swap(lambda branch: publications.take_lease(self._dataset, branch, self._owner))
            self._since = now()

    def give_back(self) -> None:
        """To `open`, where nothing was published; a publisher that may only sleep is shut out."""
        if self.taken_over:
            self._swap(lambda branch: settling.settle(self._dataset, branch))
        elif publications.look(self._dataset, self.branch).found is None:
            self._swap(lambda branch: publications.give_back(self._dataset, branch))

    def record(self, found: Publication) -> None:
        """Note the publication. Whoever took the lease over notes the same, having looked."""
        with contextlib.suppress(ConflictError, NotFoundError):
            self._swap(lambda branch: publications.record(self._dataset, branch, found))

    def _swap(self, change: Callable[[Branch], Branch]) -> None:
        for left in reversed(range(_TRIES)):
            try:
                self.branch = change(self.branch)
            except ConflictError:
                there = refs.read_branch(self._dataset.storage, self.branch.name)
                if not left or not publications.is_held_by(there, self._owner):
                    raise
                self.branch = there
            else:
                return
