"""The Java sources, compiled when a job begins, by the compiler that Spark has for its own code.

So one text fits whichever Spark, Arrow and Java are there, and nothing has to be built or fetched.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
import threading
import zipfile
from collections.abc import Mapping
from functools import lru_cache
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["SOURCE", "has_jvm", "java", "orders"]

SOURCE = "lancerefs.spark.Source"
_OLDEST_JAVA = 17  # the first long-lived one that has sockets in the file system
_lock = threading.Lock()
_known: dict[str, Any] = {}


def has_jvm(spark: SparkSession) -> bool:
    """Whether the session has a JVM of its own here, as those of Spark Connect do not."""
    context = getattr(spark, "sparkContext", None)
    return context is not None and _java(context) >= _OLDEST_JAVA


@lru_cache(maxsize=1)
def _java(context: SparkContext) -> int:
    jvm: Any = context._jvm
    version: str = jvm.java.lang.System.getProperty("java.specification.version")
    return int(version) if version.isdigit() else 0  # before 9 it was '1.8'


def orders(context: SparkContext) -> Any:
    """The Java class `Order`, once all of them are on the class path of driver and executors.

    It is looked for once: py4j finds a class by asking every jar, which takes longer than a query.
    """
    with _lock:
        application = context.applicationId
        if application not in _known:
            jvm: Any = context._jvm
            loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
            jar = _jar(_compiled(context, loader))
            loader.addURL(jvm.java.io.File(jar).toURI().toURL())
            context._jsc.addJar(jar)
            _known[application] = jvm.lancerefs.spark.Order
        return _known[application]


def java() -> Mapping[str, str]:
    """The sources by name, from wherever this package was imported, which may be a zip."""
    files = resources.files(__package__).iterdir()
    return {one.name: one.read_text(encoding="utf-8") for one in files if one.name[-5:] == ".java"}


def _compiled(context: SparkContext, loader: Any) -> Mapping[str, bytes]:
    jvm: Any = context._jvm
    gateway: Any = context._gateway
    resource = jvm.org.codehaus.commons.compiler.util.resource
    texts = java()
    sources = gateway.new_array(resource.Resource, len(texts))
    for place, (name, text) in enumerate(texts.items()):
        sources[place] = resource.StringResource(name, text)
    compiler, made = jvm.org.codehaus.janino.Compiler(), resource.MapResourceCreator()
    compiler.setIClassLoader(jvm.org.codehaus.janino.ClassLoaderIClassLoader(loader))
    compiler.setClassFileCreator(made)
    compiler.compile(sources)
    return dict(made.getMap())


def _jar(classes: Mapping[str, bytes]) -> str:
    """A jar for as long as this driver lives, from which executors fetch it."""
    folder = tempfile.mkdtemp(prefix="lancerefs-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = Path(folder, "lancerefs-spark.jar")
    with zipfile.ZipFile(path, "w") as jar:
        for name, code in classes.items():
            jar.writestr(name, code)
    return str(path)
