"""Run by `make test-bare`, in an environment that holds the wheel and what it asks for."""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import subprocess
import sys
import sysconfig
from pathlib import Path

DISTRIBUTION = "airflow-provider-lancerefs"
PACKAGE = "airflow_provider_lancerefs"
ABSENT = ("airflow", "pyspark", "s3fs", "pytest")


def main() -> None:
    for name in ABSENT:
        assert importlib.util.find_spec(name) is None, f"{name} is installed"
    check_files()
    check_library()
    check_command()
    print(f"{DISTRIBUTION} {importlib.metadata.version(DISTRIBUTION)} works without {ABSENT}")


def check_files() -> None:
    """The wheel brought the package, its metadata with the licence, and the command; no more."""
    files = importlib.metadata.files(DISTRIBUTION) or []
    outside = {str(file) for file in files if file.parts[0] != PACKAGE}
    metadata = {name for name in outside if name.partition("/")[0].endswith(".dist-info")}
    assert any(name.endswith("/licenses/LICENSE") for name in metadata), metadata
    assert {"../../../bin/lancerefs"} == outside - metadata, outside - metadata


def check_library() -> None:
    """The ref store is imported from the installed wheel, and has every name it promises."""
    refstore = importlib.import_module(f"{PACKAGE}.refstore")
    assert Path(refstore.__file__ or "").is_relative_to(sysconfig.get_path("purelib"))
    missing = [name for name in refstore.__all__ if not hasattr(refstore, name)]
    assert not missing, missing
    loaded = [name for name in ABSENT if name in sys.modules]
    assert not loaded, loaded


def check_command() -> None:
    """The console script starts and explains itself."""
    command = Path(sysconfig.get_path("scripts"), "lancerefs")
    done = subprocess.run([command, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "lancerefs" in done.stdout, done.stdout


if __name__ == "__main__":
    main()
