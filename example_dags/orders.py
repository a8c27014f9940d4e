"""The table that the examples share: orders, made at its first use."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import task

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
        lance.write_dataset(_first_orders(), hook.dataset_uri(DATASET), storage_options=options)


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


def _first_orders() -> pa.Table:
    import pyarrow as pa

    return pa.table(
        {
            "order": [f"1970-01-01/{number}" for number in range(3)],
            "day": ["1970-01-01"] * 3,
            "amount": [10.0, 11.0, 12.0],
        }
    )
