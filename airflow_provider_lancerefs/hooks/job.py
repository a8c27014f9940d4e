"""What a Spark job is given besides its order: our own code as a zip, and the keys in a file."""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from io import BytesIO
from pathlib import Path

from airflow_provider_lancerefs.refstore.errors import InvalidInputError

__all__ = ["Cluster", "check_pyspark", "job_side", "properties_with"]

_PACKAGE = Path(__file__).resolve().parents[1]
_SHIPPED = ("refstore", "spark")
_CODE = (".java", ".py")
_SECRET = "spark.lancerefs.secret."
_SHOWN = frozenset({"allow_http", "aws_endpoint", "aws_region", "aws_virtual_hosted_style_request"})
_SPECIAL = re.compile(r"[\\#!=: \t\n\r\f]")
_LETTERS = {"\n": "n", "\r": "r", "\t": "t", "\f": "f"}
_EPOCH = (1980, 1, 1, 0, 0, 0)


def job_side() -> Path:
    """A zip of what a job imports, for `py_files`; one file for one content."""
    data = _zipped()
    folder = Path(tempfile.gettempdir(), f"lancerefs-{os.getuid()}")
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise InvalidInputError(
            f"{folder} belongs to somebody else: set TMPDIR to a folder of yours."
        )
    path = folder / f"airflow_provider_lancerefs-{hashlib.sha256(data).hexdigest()[:16]}.zip"
    if not path.exists():
        with tempfile.NamedTemporaryFile(dir=folder, delete=False) as half:
            half.write(data)
        os.replace(half.name, path)
    return path


def _zipped() -> bytes:
    """The same bytes for the same code."""
    files = [_PACKAGE / "__init__.py"]
    for name in _SHIPPED:
        files += sorted(one for one in (_PACKAGE / name).rglob("*.*") if one.suffix in _CODE)
    buffer = BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in files:
            name = file.relative_to(_PACKAGE.parent).as_posix()
            archive.writestr(zipfile.ZipInfo(name, _EPOCH), file.read_bytes())
    return buffer.getvalue()


@contextmanager
def properties_with(secrets: Mapping[str, str], given: str | None) -> Iterator[str | None]:
    """A properties file that only this user can read: the given one's, or Spark's, and the keys.

    It is gone when the job has been submitted. Without keys it is the given one.
    """
    if not secrets:
        yield given
        return
    usual = Path(given) if given else _spark_defaults()
    lines = [usual.read_text()] if usual is not None and usual.exists() else []
    lines += [f"{_SECRET}{key} {_escaped(value)}" for key, value in sorted(secrets.items())]
    with tempfile.TemporaryDirectory(prefix="lancerefs-") as folder:
        path = Path(folder, "spark.properties")
        with os.fdopen(os.open(path, os.O_CREAT | os.O_WRONLY | os.O_EXCL, 0o600), "w") as file:
            file.write("\n".join(lines) + "\n")
        yield str(path)


def _spark_defaults() -> Path | None:
    """The file that Spark reads if it is given none."""
    if folder := os.environ.get("SPARK_CONF_DIR"):
        return Path(folder, "spark-defaults.conf")
    if home := os.environ.get("SPARK_HOME"):
        return Path(home, "conf", "spark-defaults.conf")
    return None


def _escaped(value: str) -> str:
    """A value as a properties file spells it."""
    return _SPECIAL.sub(lambda found: "\\" + _LETTERS.get(found[0], found[0]), value)


def check_pyspark() -> None:
    """pyspark and pyspark-client share a folder: of two versions, one breaks the other."""
    found: dict[str, str] = {}
    for name in ("pyspark", "pyspark-client"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    if len({*found.values()}) > 1:
        raise InvalidInputError(
            f"pyspark {found['pyspark']} and pyspark-client {found['pyspark-client']} are "
            "installed over each other: install both in one version."
        )


@dataclass(frozen=True)
class Cluster:
    """A kind of cluster that shows others the properties of a driver which it runs itself."""

    name: str
    scheme: str
    shows: str
    instead: str
    runs_scripts: bool

    @classmethod
    def of(cls, master: str) -> Cluster | None:
        """The kind that a master's URL is of; None for those that show nothing."""
        return next((one for one in _SHOWING if master.startswith(one.scheme)), None)

    def check_driver(self, java_class: str | None, options: Iterable[str]) -> None:
        """What it asks of a job whose driver it is to run; raises InvalidInputError."""
        if not (self.runs_scripts or java_class):
            raise InvalidInputError(
                f"{self.name} runs no driver in Python: submit in client mode, or with "
                "java_class='org.apache.spark.deploy.PythonRunner' as docs/spark.md describes."
            )
        keys = sorted({*options} - _SHOWN)
        if keys:
            raise InvalidInputError(
                f"{self.name} would show {', '.join(keys)} in {self.shows}: submit in client mode, "
                f"or by a connection without keys, which leaves them to {self.instead}."
            )


_SHOWING = (
    Cluster(
        name="A standalone cluster",
        scheme="spark://",
        shows="its driver's command line",
        instead="the cluster",
        runs_scripts=False,
    ),
    Cluster(
        name="Kubernetes",
        scheme="k8s://",
        shows="its driver's ConfigMap, to everybody who may view the namespace",
        instead=(
            "the pods' own identity, or to a Secret: "
            "spark.kubernetes.driver.secretKeyRef.AWS_ACCESS_KEY_ID=name:key, and so on, and the "
            "same with executor for driver"
        ),
        runs_scripts=True,
    ),
)
