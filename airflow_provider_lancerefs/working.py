"""What happens around a task that works on a run's branch: before it, and when it has succeeded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import AirflowFailException

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.failures import failing_for_good
from airflow_provider_lancerefs.hooks.refs import LanceRefsHook
from airflow_provider_lancerefs.refstore.errors import RefNotFoundError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_lancerefs.operators.branch import LanceCreateBranchOperator
    from airflow_provider_lancerefs.refstore import RefStore

__all__ = ["BranchOfTask", "work_on_branch"]


@dataclass(frozen=True, slots=True)
class BranchOfTask:
    """Which task made the branch that another one works on."""

    created_by: str
    per_map_index: bool

    @classmethod
    def of(cls, setup: LanceCreateBranchOperator) -> BranchOfTask:
        group = setup.get_closest_mapped_task_group()
        return cls(setup.task_id, group is not None)

    def check(self, context: Context) -> None:
        """Refuse to work where the branch of this attempt is gone."""
        made = self._made(context)
        with failing_for_good():
            for dataset, one in made["datasets"].items():
                self._standing(_store(made, dataset), made["branch"], one["life"])

    def record(self, context: Context) -> None:
        """Note on the branch that the task has done its work there."""
        made = self._made(context)
        instance: Any = context["ti"]
        writer = noting.writer_name(instance.task_id, noting.map_index_of(context))
        with failing_for_good():
            for dataset, one in made["datasets"].items():
                store = _store(made, dataset)
                try:
                    store.record_writer(made["branch"], writer, one["life"])
                except RefNotFoundError as error:
                    raise self._gone(store, made["branch"]) from error

    def _standing(self, store: RefStore, branch: str, life: str) -> None:
        try:
            there = store.branch(branch)
        except RefNotFoundError as error:
            raise self._gone(store, branch) from error
        if there.life != life or there.state.ending:
            raise self._gone(store, branch)

    def _made(self, context: Context) -> Mapping[str, Any]:
        """What the setup returned."""
        made = noting.returned_by(context, self.created_by, self.per_map_index)
        if not isinstance(made, Mapping):
            raise AirflowFailException(
                f"No branch was made for this run: clear the task {self.created_by!r}, with what "
                "is downstream of it."
            )
        return made

    def _gone(self, store: RefStore, branch: str) -> AirflowFailException:
        return AirflowFailException(
            f"The branch {branch!r} of {store.uri} is gone: clear the task {self.created_by!r} "
            "with what is downstream of it, which makes a new one."
        )


def _store(made: Mapping[str, Any], dataset: str) -> RefStore:
    return LanceRefsHook(made["lancerefs_conn_id"]).get_store(dataset)


def work_on_branch(task: Any, branch: BranchOfTask) -> None:
    """Check before the task's work, and note it after, around hooks that it has already."""
    given = getattr(task, "partial_kwargs", None)
    if given is not None:  # a mapped task, of which Airflow makes one for each index
        given["pre_execute"] = _before(branch, given.get("pre_execute"))
        given["post_execute"] = _after(branch, given.get("post_execute"))
        return
    task._pre_execute_hook = _before(branch, task._pre_execute_hook)
    task._post_execute_hook = _after(branch, task._post_execute_hook)


def _before(branch: BranchOfTask, own: Callable[..., None] | None) -> Callable[..., None]:
    def before(context: Context) -> None:
        branch.check(context)
        if own is not None:
            own(context)

    return before


def _after(branch: BranchOfTask, own: Callable[..., None] | None) -> Callable[..., None]:
    def after(context: Context, result: Any = None) -> None:
        if own is not None:
            own(context, result)
        branch.record(context)

    return after
