"""What a submitter tells a job: its datasets, their branches, what its writes are called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import normalise_uri

__all__ = ["RUN_CONF", "BranchOf", "Order"]

RUN_CONF = "spark.lancerefs.run"


@dataclass(frozen=True, slots=True)
class BranchOf:
    """The branch of a dataset that a run works on; `life` tells it from others of that name."""

    uri: str
    branch: str = MAIN
    life: str = ""


@dataclass(frozen=True, slots=True)
class Order:
    """The datasets of a run by the names that its jobs use, and the first part of its write ids.

    A retry of a task has the same `write_id`, another task or mapped instance another.
    """

    datasets: Mapping[str, BranchOf]
    write_id: str

    def to_json(self) -> str:
        """As it stands in Spark's configuration; no secret is in it."""
        datasets = {
            name: {"uri": one.uri, "branch": one.branch, "life": one.life}
            for name, one in self.datasets.items()
        }
        return json.dumps({"datasets": datasets, "write_id": self.write_id}, sort_keys=True)

    @classmethod
    def from_json(cls, text: str) -> Order:
        """Read it back; raises InvalidInputError for what `to_json` did not write."""
        try:
            said = json.loads(text)
            datasets = {
                str(name): BranchOf(
                    normalise_uri(one["uri"]), one.get("branch") or MAIN, one.get("life") or ""
                )
                for name, one in said["datasets"].items()
            }
            return cls(datasets, str(said["write_id"]))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"{RUN_CONF} does not say which branches are this job's ({error!r}): submit it "
                "with LanceSparkSubmitOperator, or use LanceRun.open(dataset, branch=...)."
            ) from error
