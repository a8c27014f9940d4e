"""Operators for tags: create or move, delete."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.operators.base import LanceRefsOperator, published_version
from airflow_provider_lancerefs.refstore.errors import AlreadyExistsError
from airflow_provider_lancerefs.refstore.models import PROTECTED_KEY, Version

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_lancerefs.refstore import RefStore, Tag

__all__ = ["LanceDeleteTagOperator", "LanceTagOperator"]


class LanceTagOperator(LanceRefsOperator):
    """
    Name a version; twice is as once.

    Returns ``{"tag", "datasets": {dataset: {"branch", "version"}}}``.

    :param tag: The name.
    :param revision: What to name: 'main', 'main@3', 'branch:NAME' or 'tag:NAME'.
    :param branch: Instead of that, a branch: where it was published, the version of its parent that
        did so, else its own newest.
    :param move: Let a tag that stands on another version name this one; else that is an error.
    :param protected: Let nobody move or delete it without force.
    :param force: Move even a protected one.
    :param metadata: Noted on the tag, besides the DAG, run and task.
    """

    template_fields: Sequence[str] = (
        *LanceRefsOperator.template_fields,
        "tag",
        "revision",
        "branch",
        "move",
        "protected",
        "force",
        "metadata",
    )
    flags = ("move", "protected", "force")

    def __init__(
        self,
        *,
        tag: str,
        revision: str = "main",
        branch: str | None = None,
        move: bool = False,
        protected: bool = False,
        force: bool = False,
        metadata: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.tag = tag
        self.revision = revision
        self.branch = branch
        self.move = move
        self.protected = protected
        self.force = force
        self.metadata = metadata

    def work(self, context: Context) -> dict[str, Any]:
        noted = {**noting.about(context), **(self.metadata or {})}
        stores = {one: self.store_of(one) for one in self.datasets}
        targets = {one: store.resolve(self._revision(store)) for one, store in stores.items()}
        found = {}
        for dataset, store in stores.items():
            tag = self._put(store, targets[dataset], noted)
            self.log.info("%s of %s names %s", tag.name, dataset, tag.target)
            found[dataset] = {"branch": tag.branch, "version": tag.version}
        self.tell(context, {one: {"tag": self.tag, **there} for one, there in found.items()})
        return {"tag": self.tag, "datasets": found}

    def _put(self, store: RefStore, target: Version, noted: Mapping[str, str]) -> Tag:
        protected = self.is_on("protected")
        try:
            tag = store.create_tag(self.tag, target, noted, protected)
        except AlreadyExistsError:
            if not self.is_on("move"):
                raise
            moved = store.move_tag(store.tag(self.tag), target, self.is_on("force"))
            tag = store.set_metadata(moved, noted)
        if protected and not tag.protected:  # it stood already
            tag = store.set_metadata(tag, {PROTECTED_KEY: "true"})
        return tag

    def _revision(self, store: RefStore) -> str:
        if self.branch is None:
            return self.revision
        branch = store.branch(self.branch)
        published = published_version(store, branch)
        if published is None:
            return f"branch:{branch.name}"
        return str(Version(branch.parent, published, 0))


class LanceDeleteTagOperator(LanceRefsOperator):
    """
    Delete a tag; one that is gone is no error. Returns which datasets had it.

    :param tag: The name.
    :param force: Delete even a protected one.
    """

    template_fields: Sequence[str] = (*LanceRefsOperator.template_fields, "tag", "force")
    flags = ("force",)

    def __init__(self, *, tag: str, force: bool = False, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.tag = tag
        self.force = force

    def work(self, context: Context) -> dict[str, Any]:
        force = self.is_on("force")
        gone = {one: self.store_of(one).delete_tag(self.tag, True, force) for one in self.datasets}
        return {"tag": self.tag, "datasets": [one for one, deleted in gone.items() if deleted]}
