"""What a task instance notes on the refs that it makes, and reads back from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from airflow.providers.common.compat.sdk import Context

__all__ = [
    "DAG_ID",
    "NOTHING_TO_PUBLISH",
    "RUN_ID",
    "about",
    "made_by",
    "made_upstream",
    "map_index_of",
    "published_upstream",
    "returned_by",
    "writer_name",
]

DAG_ID = "airflow.dag_id"
RUN_ID = "airflow.run_id"
NOTHING_TO_PUBLISH = "airflow.nothing_to_publish"


def about(context: Context) -> dict[str, str]:
    """Who made a ref: DAG, run, task, try, logical date and owner."""
    instance: Any = context["ti"]
    logical_date = context.get("logical_date")
    return {
        DAG_ID: instance.dag_id,
        RUN_ID: instance.run_id,
        "airflow.task_id": instance.task_id,
        "airflow.map_index": str(map_index_of(context)),
        "airflow.try_number": str(instance.try_number),
        "airflow.logical_date": logical_date.isoformat() if logical_date else "",
        "airflow.owner": context["task"].owner,
    }


def map_index_of(context: Context) -> int:
    index = getattr(context["ti"], "map_index", None)
    return -1 if index is None else index


def writer_name(task_id: str, map_index: int) -> str:
    """What a task instance is called among a branch's writers."""
    return task_id if map_index < 0 else f"{task_id}[{map_index}]"


def returned_by(context: Context, task_id: str, per_map_index: bool) -> Any:
    """What a task returned; of one in a mapped group, the instance of this one's index."""
    instance: Any = context["ti"]
    index = map_index_of(context) if per_map_index else -1
    pulled = instance.xcom_pull(task_ids=task_id, map_indexes=index)
    return pulled[0] if isinstance(pulled, list) and pulled else pulled


def made_upstream(context: Context, branch: str) -> Mapping[str, Any] | None:
    """What the task that created a branch returned, of those right above this one."""
    said = _said_upstream(context, branch)
    return next((one for one in said if "lancerefs_conn_id" in one), None)


def published_upstream(context: Context, branch: str, dataset: str) -> Mapping[str, Any] | None:
    """What the task that published a branch returned of a dataset, of those right above."""
    for one in _said_upstream(context, branch):
        datasets = one.get("datasets")
        done = datasets.get(dataset) if isinstance(datasets, Mapping) else None
        if isinstance(done, Mapping) and "published" in done:
            return done
    return None


def _said_upstream(context: Context, branch: str) -> Iterator[Mapping[str, Any]]:
    """What the tasks right above this one returned of a branch."""
    for task in context["task"].upstream_list:
        in_mapped_group = task.get_closest_mapped_task_group() is not None
        said = returned_by(context, task.task_id, in_mapped_group)
        if isinstance(said, Mapping) and said.get("branch") == branch:
            yield said


def made_by(metadata: Mapping[str, str]) -> tuple[str, str] | None:
    """The DAG and the run that a ref's metadata names, if it names any."""
    ids = metadata.get(DAG_ID), metadata.get(RUN_ID)
    return (ids[0], ids[1]) if ids[0] and ids[1] else None
