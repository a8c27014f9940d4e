"""The operator that sweeps branches nobody deleted."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any

from airflow_provider_lancerefs import noting
from airflow_provider_lancerefs.operators.base import LanceRefsOperator
from airflow_provider_lancerefs.refstore.ages import parse_age
from airflow_provider_lancerefs.refstore.models import Branch
from airflow_provider_lancerefs.refstore.names import RUNS

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

__all__ = ["LanceExpireBranchesOperator"]

_UNFINISHED = ["queued", "running"]


class LanceExpireBranchesOperator(LanceRefsOperator):
    """
    Delete the branches that nobody deleted: the sweep for what no teardown could catch.

    Never one that is tagged, protected, being published or the parent of another, nor one of a DAG
    run that is still queued or running. Returns a list of ``{"dataset", "branch", "deleted",
    "reason"}``.

    :param pattern: Which branches, as a glob.
    :param older_than: How long nobody must have written to them: a timedelta, or '12h' or '7d'.
    :param report_only: Only say what would be deleted.
    """

    template_fields: Sequence[str] = (
        *LanceRefsOperator.template_fields,
        "pattern",
        "older_than",
        "report_only",
    )
    flags = ("report_only",)

    def __init__(
        self,
        *,
        pattern: str = f"{RUNS}/*",
        older_than: timedelta | str = "3d",
        report_only: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.pattern = pattern
        self.older_than = older_than
        self.report_only = report_only

    def work(self, context: Context) -> list[dict[str, Any]]:
        age = parse_age(self.older_than) if isinstance(self.older_than, str) else self.older_than
        found = []
        for dataset in self.datasets:
            swept = self.store_of(dataset).expire_branches(
                self.pattern,
                age,
                self.is_on("report_only"),
                spare=lambda branch: _why_running(context, branch),
            )
            for one in swept:
                self.log.info("%s: %s (%s)", one.branch, "due" if one.due else "kept", one.reason)
                found.append(
                    {
                        "dataset": dataset,
                        "branch": one.branch,
                        "deleted": one.deleted,
                        "reason": one.reason,
                    }
                )
        return found


def _why_running(context: Context, branch: Branch) -> str | None:
    """Why the branch of a DAG run that is not over is kept."""
    ids = noting.made_by(branch.metadata)
    if ids is None:
        return None
    instance: Any = context["ti"]
    if instance.get_dr_count(dag_id=ids[0], run_ids=[ids[1]], states=_UNFINISHED):
        return f"the run {ids[1]} of {ids[0]} is not over"
    return None
