"""What the operators have in common: datasets, a hook, and errors that Airflow understands."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from airflow.providers.common.compat.sdk import Asset, AssetAlias, BaseOperator

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.assets import lance_asset
from airflow_provider_lancerefs.failures import failing_for_good, patiently
from airflow_provider_lancerefs.hooks.refs import DEFAULT_CONN_ID, LanceRefsHook, publish_lease
from airflow_provider_lancerefs.refstore.errors import InvalidInputError
from airflow_provider_lancerefs.refstore.models import Branch, BranchState

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_lancerefs.refstore import RefStore

__all__ = ["LanceRefsOperator", "is_true", "published_version"]

_Result = TypeVar("_Result")


class LanceRefsOperator(BaseOperator):
    """
    Work on the refs of a dataset, or of several that are treated alike.

    :param dataset: A name below the connection's root, or a full URI; or a list of them.
    :param lancerefs_conn_id: The connection.
    """

    template_fields: Sequence[str] = ("dataset", "lancerefs_conn_id")
    flags: ClassVar[Sequence[str]] = ()  # those arguments that are true or false
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
        named = [self.dataset] if isinstance(self.dataset, str) else [*(self.dataset or ())]
        if not named:
            raise InvalidInputError(f"The task {self.task_id!r} was given no dataset.")
        return named

    def is_on(self, flag: str) -> bool:
        """Whether an argument is true, of which a template may have made text."""
        return is_true(flag, getattr(self, flag))

    def execute(self, context: Context) -> Any:
        with failing_for_good():
            self._check_arguments()
            return self.work(context)

    def _check_arguments(self) -> None:
        """Of what is wrong with an argument, tell before anything is done to the first dataset."""
        for flag in self.flags:
            self.is_on(flag)
        for dataset in self.datasets:
            self.store_of(dataset)

    @abstractmethod
    def work(self, context: Context) -> Any:
        """Do it, and return something small."""

    def store_of(self, dataset: str) -> RefStore:
        return self.hook.get_store(dataset)

    def waiting_for_others(self, call: Callable[[], _Result]) -> _Result:
        """Wait for a publish that is under way; one whose process died is over with its lease."""
        return patiently(publish_lease().total_seconds() * 1.5, call)

    def tell(self, context: Context, happened: Mapping[str, Mapping[str, Any]]) -> None:
        """Put what happened to each dataset on its asset's event; other outlets get the first.

        An alias gets the assets of those datasets that are no outlet themselves.
        """
        first, *_ = happened.values()
        left = {
            lance_asset(one, self.lancerefs_conn_id).uri: what for one, what in happened.items()
        }
        outlets = self.outlets or ()
        for outlet in (one for one in outlets if not isinstance(one, AssetAlias)):
            what = left.pop(getattr(outlet, "uri", ""), first)
            context["outlet_events"][outlet].extra.update(what)
        for alias in (one for one in outlets if isinstance(one, AssetAlias)):
            for uri, what in left.items():
                context["outlet_events"][alias].add(Asset(uri=uri), extra=dict(what))

    def get_openlineage_facets_on_complete(self, task_instance: Any) -> Any:
        """Name the datasets as OpenLineage does."""
        from airflow_provider_lancerefs.lineage import lineage_of  # only where it is installed

        return lineage_of(self.hook, self.datasets)


def is_true(flag: str, value: object) -> bool:
    """Whether a value is true, of which a template may have made text."""
    text = str(value).lower()
    if text not in ("true", "false"):
        raise InvalidInputError(f"{flag} is true or false, not {value!r}.")
    return text == "true"


def published_version(store: RefStore, branch: Branch) -> int | None:
    """The parent's version with all that the branch has; also where a publish had nothing to do."""
    noted = branch.metadata.get(noting.NOTHING_TO_PUBLISH)
    if noted and branch.state is not BranchState.PUBLISHED:
        return int(noted)
    return store.find_publication(branch)
