"""A job that writes through the connector, and may be killed. Its order comes by stdin."""

from __future__ import annotations

import json
import sys

from airflow_provider_lancerefs.spark import LanceRun
from airflow_provider_lancerefs.spark.ordering import RUN_CONF
from tests.connector.sessions import connector_session


def main() -> None:
    order = json.load(sys.stdin)
    secrets = {f"spark.lancerefs.secret.{key}": value for key, value in order["options"].items()}
    spark = connector_session(**secrets, **{RUN_CONF: order["run"]})
    run = LanceRun.current(spark)
    print(run.write(spark.range(10, 14, 1, 2).toDF("n"), "orders"))


if __name__ == "__main__":
    main()
