"""Operators for a branch's life: create, and delete."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.failures import can_pass
from airflow_provider_lancerefs.operators.base import LanceRefsOperator, published_version
from airflow_provider_lancerefs.refstore.errors import (
    InvalidInputError,
    RefNotFoundError,
    RefusedError,
)
from airflow_provider_lancerefs.refstore.models import Branch, Version
from airflow_provider_lancerefs.refstore.names import run_branch_prefix

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_lancerefs.refstore import RefStore

__all__ = [
    "LanceCreateBranchOperator",
    "LanceDeleteBranchOperator",
]


class LanceCreateBranchOperator(LanceRefsOperator):
    """
    Create the branch that a DAG run works on, under a name that no other attempt has.

    Without ``branch`` the name is the run's own with a fresh last part, and what earlier attempts
    of the same run left is deleted first, so that a late writer of theirs writes nowhere. With
    ``branch`` the name is that, and a branch that stands there from the same source is returned.

    Returns ``{"branch", "datasets": {dataset: {"uri", "base_version", "life", ...}}}`` and pushes
    ``branch``, and ``uri`` (where to write) of the first dataset, as XComs of their own.

    :param branch: The name, instead of one for the run.
    :param source: What to fork: 'main', 'main@3', 'branch:NAME' or 'tag:NAME'.
    :param metadata: Noted on the branch, besides the DAG, run and task.
    """

    template_fields: Sequence[str] = (
        *LanceRefsOperator.template_fields,
        "branch",
        "source",
        "metadata",
    )

    def __init__(
        self,
        *,
        branch: str | None = None,
        source: str = "main",
        metadata: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.source = source
        self.metadata = metadata

    def work(self, context: Context) -> dict[str, Any]:
        instance: Any = context["ti"]
        stores = {one: self.store_of(one) for one in self.datasets}
        for store in stores.values() if len(stores) > 1 else ():
            store.resolve(self.source)  # where one has no such version, none gets the branch
        name = self.branch or self._fresh_name(instance, noting.map_index_of(context))
        noted = {**noting.about(context), **(self.metadata or {})}
        made = {one: self._create(store, name, noted) for one, store in stores.items()}
        instance.xcom_push(key="branch", value=name)
        instance.xcom_push(key="uri", value=made[self.datasets[0]]["uri"])
        self.tell(context, {one: {"branch": name} for one in made})
        return {"branch": name, "lancerefs_conn_id": self.lancerefs_conn_id, "datasets": made}

    def _fresh_name(self, instance: Any, map_index: int) -> str:
        prefix = run_branch_prefix(instance.dag_id, instance.run_id, map_index)
        for dataset in self.datasets:
            self._retire(self.store_of(dataset), prefix)
        return prefix + uuid.uuid4().hex[:8]

    def _retire(self, store: RefStore, prefix: str) -> None:
        """Delete what earlier attempts left; what is a release by now stays."""
        for name in store.branch_names():
            if not name.startswith(prefix):
                continue
            try:
                self.waiting_for_others(partial(store.delete_branch, name, missing_ok=True))
            except RefusedError as error:
                if can_pass(error):  # its publish would land beside the one of the new life
                    raise
                self.log.info("An earlier attempt's branch stays: %s", error)
            else:
                self.log.info("Deleted the branch %s of an earlier attempt", name)

    def _create(self, store: RefStore, name: str, noted: Mapping[str, str]) -> dict[str, Any]:
        made = store.create_branch(name, self.source, noted)
        self.log.info("Created the branch %s of %s from %s", name, store.uri, made.source)
        return {
            "uri": f"{store.uri}/tree/{name}",
            "parent": made.parent,
            "base_version": made.parent_version,
            "identifier": [list(one) for one in made.identifier],
            "life": made.life,
        }


class LanceDeleteBranchOperator(LanceRefsOperator):
    """
    Delete a branch and what only it reached; one that is gone is no error.

    As a teardown with ``expect`` it is the guard of a run: it discards the branch and then fails,
    without a retry, unless the branch had been published (or tagged). A branch that a tag needs
    stays.

    :param branch: The branch.
    :param expect: 'published' or 'tagged': what must have happened to it, or None.
    :param expect_tag: A tag that must besides name the published version, or a later one.
    :param keep_on_failure: Where that did not happen, leave the branch for a look; the sweep takes
        it later.
    :param unless_needed: Let a branch that a tag or another branch needs stay, without an error.
    :param force: Delete even a protected one.
    """

    template_fields: Sequence[str] = (
        *LanceRefsOperator.template_fields,
        "branch",
        "expect",
        "expect_tag",
        "keep_on_failure",
        "unless_needed",
        "force",
    )
    flags = ("keep_on_failure", "unless_needed", "force")

    def __init__(
        self,
        *,
        branch: str,
        expect: Literal["published", "tagged"] | None = None,
        expect_tag: str | None = None,
        keep_on_failure: bool = False,
        unless_needed: bool = False,
        force: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.expect = expect
        self.expect_tag = expect_tag
        self.keep_on_failure = keep_on_failure
        self.unless_needed = unless_needed
        self.force = force

    def work(self, context: Context) -> dict[str, Any]:
        if self.expect not in (None, "published", "tagged"):
            raise InvalidInputError(
                f"A branch is expected to be 'published' or 'tagged', not {self.expect!r}."
            )
        missed = [one for one in self.datasets if not self._end(one, context)]
        if missed:
            fate = "left for a look" if self.is_on("keep_on_failure") else "discarded"
            tagged = f" and tagged as {self.expect_tag!r}" if self.expect_tag else ""
            raise AirflowFailException(
                f"The branch {self.branch!r} of {', '.join(missed)} was not {self.expect}{tagged}, "
                f"and was {fate}: see why the tasks before did not get there."
            )
        return {"branch": self.branch, "datasets": self.datasets}

    def _end(self, dataset: str, context: Context) -> bool:
        """Delete, and say whether what was expected of the branch had happened."""
        store = self.store_of(dataset)
        try:
            branch = store.branch(self.branch)
        except RefNotFoundError:
            return self._had_ended_well(store, dataset, context)
        if self.is_on("keep_on_failure") and not self._has_ended_well(store, branch):
            return False
        stays = self._delete(store)
        return (stays or self.expect != "tagged") and self._has_ended_well(store, branch)

    def _delete(self, store: RefStore) -> bool:
        """Delete the branch, unless it is needed and may be; whether it stays."""
        force = self.is_on("force")
        try:
            self.waiting_for_others(lambda: store.delete_branch(self.branch, True, force))
        except RefusedError as error:
            may_stay = self.is_on("unless_needed") or self.expect == "tagged"
            if not error.blockers or not may_stay:
                raise
            self.log.info("%s", error)
            return True
        self.log.info("Deleted the branch %s of %s", self.branch, store.uri)
        return False

    def _has_ended_well(self, store: RefStore, branch: Branch | None) -> bool:
        """As tags and the parent's history show, whether the branch still stands or not."""
        if self.expect is None:
            return True
        if branch is None:
            return False
        if self.expect == "tagged":
            return any(getattr(tag, "branch", None) == branch.name for tag in store.tags())
        version = published_version(store, branch)
        return version is not None and self._is_tagged(store, Version(branch.parent, version, 0))

    def _is_tagged(self, store: RefStore, published: Version) -> bool:
        """Whether the tag stands there; a later run may have moved it on by now."""
        if not self.expect_tag:
            return True
        try:
            tag = store.tag(self.expect_tag)
        except RefNotFoundError:
            return False
        return tag.branch == published.branch and tag.version >= published.number

    def _had_ended_well(self, store: RefStore, dataset: str, context: Context) -> bool:
        """The same of a branch that an earlier try deleted, by what the tasks before said of it."""
        made = noting.made_upstream(context, self.branch)
        branch = _branch_of(self.branch, made["datasets"][dataset]) if made else None
        if self._has_ended_well(store, branch):
            return True
        done = noting.published_upstream(context, self.branch, dataset)
        if branch is None or done is None or done["published"] or self.expect != "published":
            return False
        return self._is_tagged(store, Version(done["parent"], done["version"], 0))


def _branch_of(name: str, made: Mapping[str, Any]) -> Branch:
    return Branch(
        name=name,
        parent=made["parent"],
        parent_version=made["base_version"],
        created_at=datetime.now(UTC),
        manifest_size=0,
        identifier=tuple((number, life) for number, life in made["identifier"]),
    )
