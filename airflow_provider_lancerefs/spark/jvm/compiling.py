"""The Java sources, compiled when a job begins, by the compiler that Spark has for its own code.

So one text fits whichever Spark, Arrow and Java are there, and nothing has to be built or fetched.
"""

from __future__ import annotations

import threading
import zipfile
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

__all__ = ["has_jvm", "java", "java_side"]

_SERVICE = "META-INF/services/org.apache.spark.sql.sources.DataSourceRegister"
_lock = threading.Lock()
_known: dict[str, Any] = {}


def has_jvm(spark: SparkSession) -> bool:
    """Whether the session has a JVM of its own here, as those of Spark Connect do not."""
    return hasattr(spark, "sparkContext")


def java_side(context: SparkContext) -> Any:
    """The Java class `Told`, once all of them are on the class path of driver and executors.

    It is looked for once: py4j finds a class by asking every jar, which takes longer than a query.
    """
    with _lock:
        application = context.applicationId
        if application not in _known:
            jvm: Any = context._jvm
            loader = jvm.java.lang.Thread.currentThread().getContextClassLoader()
            jar = _jar(_compiled(context, loader), Path(context._temp_dir))
            loader.addURL(jvm.java.io.File(jar).toURI().toURL())
            context._jsc.addJar(jar)
            _known[application] = jvm.lancerefs.spark.Told
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


def _jar(classes: Mapping[str, bytes], folder: Path) -> str:
    """A jar in a folder that lives as long as the driver, from which executors fetch it.

    Spark finds the source in it by the name of its format.
    """
    path = folder / "lancerefs-spark.jar"
    with zipfile.ZipFile(path, "w") as jar:
        jar.writestr(_SERVICE, "lancerefs.spark.Source")
        for name, code in classes.items():
            jar.writestr(name, code)
    return str(path)
