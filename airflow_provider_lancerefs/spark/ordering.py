"""What a submitter tells a job: its datasets, their branches, what its writes are called."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_lancerefs.refstore import InvalidInputError
from airflow_provider_lancerefs.refstore.names import MAIN
from airflow_provider_lancerefs.refstore.storage import normalise_uri
from airflow_provider_lancerefs.spark.options import Place, Storages, storage_of

__all__ = ["CONNECTOR", "OWN", "RUN_CONF", "BranchOf", "Order", "check_engine"]

RUN_CONF = "spark.lancerefs.run"
OWN, CONNECTOR = "lancerefs", "connector"


@dataclass(frozen=True, slots=True)
class BranchOf:
    """The branch of a dataset that a run works on; `life` tells it from others of that name."""

    uri: str
    branch: str = MAIN
    life: str = ""

    def place(self, storages: Storages) -> Place:
        """It and how to get in, by the options of a session."""
        return Place(self.uri, self.branch, storage_of(self.uri, storages))


@dataclass(frozen=True, slots=True)
class Order:
    """The datasets of a run by the names that its jobs use, and the first part of its write ids.

    A retry of a task has the same `write_id`, another task or mapped instance another. `engine`
    reads and writes the rows.
    """

    datasets: Mapping[str, BranchOf]
    write_id: str
    engine: str = OWN

    def to_json(self) -> str:
        """As it stands in Spark's configuration; no secret is in it."""
        datasets = {
            name: {"uri": one.uri, "branch": one.branch, "life": one.life}
            for name, one in self.datasets.items()
        }
        said = {"datasets": datasets, "engine": self.engine, "write_id": self.write_id}
        return json.dumps(said, sort_keys=True)

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
            return cls(datasets, str(said["write_id"]), str(said.get("engine", OWN)))
        except (ValueError, LookupError, TypeError, AttributeError) as error:
            raise InvalidInputError(
                f"{RUN_CONF} does not say which branches are this job's ({error!r}): submit it "
                "with LanceSparkSubmitOperator, or use LanceRun.open(dataset, branch=...)."
            ) from error


def check_engine(name: str) -> str:
    """The name of an engine; raises InvalidInputError if there is none of that name."""
    if name not in (OWN, CONNECTOR):
        raise InvalidInputError(f"An engine is {OWN!r} or {CONNECTOR!r}, not {name!r}.")
    return name
