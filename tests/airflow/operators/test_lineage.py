from __future__ import annotations

import pytest

from airflow_provider_lancerefs.assets import convert_asset_to_openlineage, lance_asset
from airflow_provider_lancerefs.operators.clone import LanceShallowCloneOperator
from airflow_provider_lancerefs.operators.tag import LanceTagOperator
from tests.airflow.operators.desk import Desk

pytestmark = pytest.mark.airflow


class TestLineage:
    """What OpenLineage is told."""

    def test_outputs(self, desk: Desk) -> None:
        """Every operator names its datasets as the asset of each does."""
        task = desk.task(LanceTagOperator, tag="v1", dataset=["orders", "items"])
        said = task.get_openlineage_facets_on_complete(None)  # type: ignore[attr-defined]
        assert said.inputs == []
        assert said.outputs == [
            convert_asset_to_openlineage(lance_asset(one, desk.conn_id), None)
            for one in ("orders", "items")
        ]
        (first, _) = said.outputs
        assert f"{first.namespace}/{first.name}".removeprefix("file/") == desk.orders.uri

    def test_a_clone(self, local_desk: Desk) -> None:
        """A clone is made of its source."""
        task = local_desk.task(LanceShallowCloneOperator, target="copy")
        said = task.get_openlineage_facets_on_complete(None)  # type: ignore[attr-defined]
        assert [one.name for one in said.inputs] == [local_desk.orders.uri]
        assert [one.name for one in said.outputs] == [local_desk.place("copy").uri]

    @pytest.mark.parametrize("dataset", ["/a/x.lance", "s3://bucket/x.lance"])
    def test_assets_of_full_uris(self, local_desk: Desk, dataset: str) -> None:
        """A full URI or an absolute path is found again in its asset."""
        said = convert_asset_to_openlineage(lance_asset(dataset, local_desk.conn_id), None)
        expected = ("file", dataset) if dataset[0] == "/" else ("s3://bucket", "x.lance")
        assert (said.namespace, said.name) == expected
