"""The operator for shallow clones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_lancerefs.operators.base import LanceRefsOperator
from airflow_provider_lancerefs.refstore.errors import InvalidInputError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

__all__ = ["LanceShallowCloneOperator"]


class LanceShallowCloneOperator(LanceRefsOperator):
    """
    Make a dataset elsewhere that shares this one's files, and pin its source by a tag.

    Returns ``{"dataset", "target", "branch", "version"}``.

    :param target: Where: a name below the connection's root, or a full URI.
    :param revision: What to clone: 'main', 'main@3', 'branch:NAME' or 'tag:NAME'.
    """

    template_fields: Sequence[str] = (*LanceRefsOperator.template_fields, "target", "revision")

    def __init__(self, *, target: str, revision: str = "main", **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.target = target
        self.revision = revision

    def work(self, context: Context) -> dict[str, Any]:
        target = self.hook.dataset_uri(self.target)
        if len(self.datasets) > 1:
            raise InvalidInputError("One target is the clone of one dataset.")
        (dataset,) = self.datasets
        source = self.store_of(dataset).shallow_clone(target, self.revision)
        self.log.info("%s shares the files of %s of %s", target, source, dataset)
        return {
            "dataset": dataset,
            "target": target,
            "branch": source.branch,
            "version": source.number,
        }

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Name the clone, and what it was made of, as OpenLineage does."""
        from airflow_provider_lancerefs.lineage import lineage_of  # only where it is installed

        return lineage_of(self.hook, [self.target], self.datasets)
