"""What the page on Spark shows runs as it stands, in a lake on local disk."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import RefStore
from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.ordering import RUN_CONF, BranchOf, Order
from tests.test_docs import ROOT, blocks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [
    pytest.mark.spark,
    pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas"),
]


@pytest.fixture
def lake(tmp_path: Path) -> str:
    """Three tables, each with a branch; orders have a release too."""
    for name in ("orders", "paid", "refunds"):
        amounts = [1.0, -2.0, 3.0] if name == "orders" else [-1.0]
        ids = range(2, 2 + len(amounts))
        lance.write_dataset(pa.table({"id": [*ids], "amount": amounts}), f"{tmp_path}/{name}")
        store = RefStore.open(f"{tmp_path}/{name}")
        store.create_branch("dev/ann")
    RefStore.open(f"{tmp_path}/orders").create_tag("release-1", "main")
    return str(tmp_path)


def test_the_page_s_examples_run(spark: SparkSession, lake: str) -> None:
    """In a run they read one table and change two others, on their branches."""
    in_a_run, source, *_ = blocks((ROOT / "docs" / "spark.md").read_text(), "python")
    names = ("orders", "paid", "refunds")
    order = Order({one: BranchOf(f"{lake}/{one}", "dev/ann") for one in names}, "dag/run/task/-1")
    spark.conf.set(RUN_CONF, order.to_json())
    try:
        exec(in_a_run, {})
    finally:
        spark.conf.unset(RUN_CONF)
    df = spark.createDataFrame([(9, 9.0)], "id long, amount double")
    exec(source.replace("s3://lake", lake), {"spark": spark, "df": df})

    by_hand = LanceRun.open(f"{lake}/orders", branch="dev/ann", spark=spark)
    assert by_hand.read("orders").count() == 4
    assert [lance.dataset(f"{lake}/{one}").count_rows() for one in names] == [3, 1, 1]
    refunds = lance.dataset(f"{lake}/refunds/tree/dev/ann").to_table().to_pylist()
    assert sorted(one["id"] for one in refunds) == [2, 3]
    assert lance.dataset(f"{lake}/paid/tree/dev/ann").count_rows() == 3
