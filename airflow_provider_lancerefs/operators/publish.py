"""The operator that publishes a branch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.operators.base import LanceRefsOperator
from airflow_provider_lancerefs.refstore.errors import PublishRefusedError

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

    from airflow_provider_lancerefs.refstore import RefStore

__all__ = ["LancePublishBranchOperator"]

_NOT_WORKING = ("skipped", "removed")  # the latter: of a task that is mapped over less than before


class LancePublishBranchOperator(LanceRefsOperator):
    """
    Make a branch's changes its parent's, in one commit; twice is as once.

    Of several datasets none is published unless each of them can be; they are published one after
    the other. Returns ``{"branch", "datasets": {dataset: {"version", "published", ...}}}``.

    :param branch: The branch.
    :param message: A commit message.
    :param require_writers: Who must have written to this life of the branch, as tasks record it.
    :param scope: The ids of tasks whose instances must each have recorded themselves, or have been
        skipped; ``lance_run`` names all that work inside it.
    :param optimize_indices: Bring new rows into the indices afterwards.
    """

    template_fields: Sequence[str] = (
        *LanceRefsOperator.template_fields,
        "branch",
        "message",
        "require_writers",
        "optimize_indices",
    )
    flags = ("optimize_indices",)

    def __init__(
        self,
        *,
        branch: str,
        message: str | None = None,
        require_writers: Sequence[str] = (),
        scope: Sequence[str] = (),
        optimize_indices: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.branch = branch
        self.message = message
        self.require_writers = require_writers
        self.scope = scope
        self.optimize_indices = optimize_indices

    def work(self, context: Context) -> dict[str, Any]:
        stores = {one: self.store_of(one) for one in self.datasets}
        writers = [*self.require_writers, *self._instances_in_scope(context)]
        if len(stores) > 1:
            for store in stores.values():
                self._check(store, writers)
        done = {one: self._publish(store, context, writers) for one, store in stores.items()}
        self.tell(
            context,
            {
                one: {"branch": self.branch, "version": result["version"]}
                for one, result in done.items()
            },
        )
        return {"branch": self.branch, "datasets": done}

    def _instances_in_scope(self, context: Context) -> list[str]:
        """Every instance of the tasks in scope that Airflow takes for done."""
        instance: Any = context["ti"]
        index = noting.map_index_of(context)
        found = []
        for task_id in self.scope:
            states = instance.get_task_states(
                dag_id=instance.dag_id, task_ids=[task_id], run_ids=[instance.run_id]
            ).get(instance.run_id, {})
            for key, state in states.items():
                number = key.removeprefix(task_id).removeprefix("_")
                mine = index < 0 or not number or int(number) == index
                if mine and state not in _NOT_WORKING:
                    found.append(noting.writer_name(task_id, int(number) if number else -1))
        return found

    def _check(self, store: RefStore, writers: list[str]) -> None:
        """Of several datasets, let none be published where another one cannot be."""
        plan = store.plan_publish(self.branch, writers)
        if plan.refusal is not None:
            raise PublishRefusedError.of(plan)

    def _publish(self, store: RefStore, context: Context, writers: list[str]) -> dict[str, Any]:
        noted = noting.about(context)
        result = self.waiting_for_others(
            lambda: store.publish(
                self.branch,
                message=self.message,
                properties=noted,
                require_writers=writers,
                optimize_indices=self.is_on("optimize_indices"),
            )
        )
        if not result.published:
            branch = store.branch(self.branch)
            store.set_metadata(branch, {noting.NOTHING_TO_PUBLISH: str(result.version)})
        self.log.info("%s of %s is %s@%s", self.branch, store.uri, result.parent, result.version)
        return {
            "parent": result.parent,
            "version": result.version,
            "published": result.published,
            "already_published": result.already_published,
            "bytes_copied": result.bytes_copied,
            "unindexed": result.unindexed,
        }
