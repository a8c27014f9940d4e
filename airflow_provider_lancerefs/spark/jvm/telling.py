"""What the driver's Python tells the JVM of itself, which asks it for all that concerns Lance."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from typing import TYPE_CHECKING

from airflow_provider_lancerefs.spark.jvm.compiling import java_side
from airflow_provider_lancerefs.spark.options import Storages

if TYPE_CHECKING:
    from pyspark import SparkContext

__all__ = ["tell"]


def tell(context: SparkContext, storages: Storages) -> None:
    """Have the format `lancerefs` read and write by these storage options.

    Spark, which shows options to everybody, is told nothing of them.
    """
    theirs = context.pythonExec
    executors, driver = _recipe(context, theirs), _recipe(context, _own(theirs))
    java_side(context).tell(executors, driver, pickle.dumps(storages))


def _own(theirs: str) -> str:
    """This interpreter, by the name that executors have for theirs if that is the same one.

    Several environments may share one interpreter, which each of them has in a folder of its own.
    """
    found, own = shutil.which(theirs), sys.executable
    folders = [os.path.dirname(os.path.abspath(one)) for one in (found or "", own)]
    return theirs if found and os.path.samefile(found, own) and os.path.samefile(*folders) else own


def _recipe(context: SparkContext, python: str) -> str:
    """How a JVM starts Python, as it does for Spark's own workers."""
    said = {
        "environment": dict(context.environment),
        "includes": list(context._python_includes or []),
        "python": python,
    }
    return json.dumps(said, sort_keys=True)
