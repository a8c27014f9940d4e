"""The table that the examples share: orders, made at its first use."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from airflow.sdk import get_current_context, task

from airflow_provider_lancerefs.hooks.refs import LanceRefsHook

if TYPE_CHECKING:
    import lance
    import pyarrow as pa

DATASET = "orders"
DAY = "{{ dag_run.run_after.strftime('%Y-%m-%d') }}"


@task
def seed_orders() -> None:
    """Make the table, if it does not stand yet."""
    from airflow_provider_lancerefs.refstore import DatasetNotFoundError

    hook = LanceRefsHook()
    try:
        hook.get_store(DATASET).resolve("main")
    except DatasetNotFoundError:
        import lance

        options = hook.storage_options(DATASET)
        lance.write_dataset(
            _orders("1970-01-01", 3), hook.dataset_uri(DATASET), storage_options=options
        )


@task(retries=2, retry_delay=timedelta(seconds=1))
def write_orders(
    uri: str, day: str, rows: int = 100, wrong: int = 0, dies_at_first: bool = False
) -> int:
    """Put a day's orders onto the run's branch; by their number, so that a retry doubles none."""
    table = open_table(uri)
    table.merge_insert("order").when_matched_update_all().when_not_matched_insert_all().execute(
        _orders(day, int(rows), int(wrong))
    )
    if dies_at_first and get_current_context()["ti"].try_number == 1:
        raise RuntimeError("the first try dies after it has written")
    return table.count_rows()


@task
def audit_orders(uri: str) -> int:
    """Look at the branch as readers will at what is published, which nothing wrong must be."""
    table = open_table(uri)
    wrong = table.count_rows(filter="amount < 0 OR amount IS NULL")
    if wrong:
        raise ValueError(f"{wrong} orders have no amount that can be right")
    return table.count_rows()


def open_table(uri: str) -> lance.LanceDataset:
    import lance

    return lance.dataset(uri, storage_options=LanceRefsHook().storage_options(uri))


def _orders(day: str, rows: int, wrong: int = 0) -> pa.Table:
    import pyarrow as pa

    numbers = range(rows)
    return pa.table(
        {
            "order": [f"{day}/{number}" for number in numbers],
            "day": [day] * rows,
            "amount": [-1.0 if number < wrong else 10.0 + number for number in numbers],
        }
    )
