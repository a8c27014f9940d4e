"""What the operators have in common: datasets, a hook, and errors that Airflow understands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

from airflow.providers.common.compat.sdk import BaseOperator

from airflow_provider_lancerefs.failures import failing_for_good, patiently
from airflow_provider_lancerefs.hooks.refs import DEFAULT_CONN_ID, LanceRefsHook, publish_lease

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_lancerefs.refstore import RefStore

__all__ = ["LanceRefsOperator"]

_Result = TypeVar("_Result")


class LanceRefsOperator(BaseOperator):
    """
    Work on the refs of a dataset, or of several that are treated alike.

    :param dataset: A name below the connection's root, or a full URI; or a list of them.
    :param lancerefs_conn_id: The connection.
    """

    template_fields: Sequence[str] = ("dataset", "lancerefs_conn_id")
    ui_color = "#e8f1ec"

    def __init__(
        self,
        *,
        dataset: str | Sequence[str],
        lancerefs_conn_id: str = DEFAULT_CONN_ID,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.dataset = dataset
        self.lancerefs_conn_id = lancerefs_conn_id

    @cached_property
    def hook(self) -> LanceRefsHook:
        return LanceRefsHook(self.lancerefs_conn_id)

    @property
    def datasets(self) -> list[str]:
        """The datasets by the names they were given."""
        return [self.dataset] if isinstance(self.dataset, str) else [*self.dataset]

    def execute(self, context: Context) -> Any:
        with failing_for_good():
            return self.work(context)

    @abstractmethod
    def work(self, context: Context) -> Any:
        """Do it, and return something small."""

    def store_of(self, dataset: str) -> RefStore:
        return self.hook.get_store(dataset)

    def waiting_for_others(self, call: Callable[[], _Result]) -> _Result:
        """Wait for a publish that is under way; one whose process died is over with its lease."""
        return patiently(publish_lease().total_seconds() * 1.5, call)

    def tell(self, context: Context, extra: Mapping[str, Any]) -> None:
        """Put what happened on the asset events of the outlets."""
        for outlet in self.outlets or ():
            context["outlet_events"][outlet].extra.update(extra)

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Name the datasets as OpenLineage does."""
        from airflow_provider_lancerefs.lineage import lineage_of  # only where it is installed

        return lineage_of(self.hook, self.datasets)
