"""The publishes and discards that a victim makes, and some that are planted to be found out.

A lease is over as soon as it is taken, so nobody need wait for that of a dead process; it is
renewed whenever it can be, which makes for more writes to die at.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any
from unittest import mock

from airflow_provider_lancerefs.refstore import PublishResult, RefStore, publications, publishing
from airflow_provider_lancerefs.refstore.dataset import Dataset
from airflow_provider_lancerefs.refstore.leases import Lease
from airflow_provider_lancerefs.refstore.plans import PublishPlan
from airflow_provider_lancerefs.refstore.publications import Publication

NO_TIME = timedelta(0)


def publish(dataset: Dataset, name: str = "b", *, optimize_indices: bool = False) -> PublishResult:
    store = RefStore(replace(dataset, publish_lease=NO_TIME))
    return store.publish(name, optimize_indices=optimize_indices)


def _record_first(dataset: Dataset) -> None:
    """Planted: a publish that notes its version on the ref before there is one.

    A step of the real one is replaced, for it has no such fault to be found.
    """
    attempt = publishing.attempt

    def recording(where: Dataset, lease: Lease, said: PublishPlan, *rest: Any) -> object:
        lease.record(Publication(said.parent_version + 2, said.branch_version, ""))
        return attempt(where, lease, said, *rest)

    with mock.patch.object(publishing, "attempt", recording):
        RefStore(dataset).publish("b")


def _without_a_fence(dataset: Dataset) -> PublishResult:
    """Planted: a commit that nothing keeps from landing beside that of a twin.

    The fence is replaced by one that no twin has, for all real publishes of a life share theirs.
    """
    own = (1 << 62) + random.getrandbits(40)
    with mock.patch.object(publications, "fence", return_value=own):
        return publish(dataset)


PUBLISH_CALLS: Mapping[str, Callable[[Dataset], object]] = {
    "publish": publish,
    "publish and index": lambda dataset: publish(dataset, optimize_indices=True),
    "publish into a branch": lambda dataset: publish(dataset, "p/b"),
    "discard": lambda dataset: RefStore(dataset).delete_branch("b", missing_ok=True),
    "planted publish": _record_first,
    "planted twin": _without_a_fence,
}
