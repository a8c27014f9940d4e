"""A PostgreSQL of the machine's own, on a free loopback port and in a folder that goes with it."""

from __future__ import annotations

import contextlib
import os
import pwd
import secrets
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.services.ports import free_ports

SUPERUSER = "airflow"
SECONDS = 60
SERVANTS = ("postgres", "nobody")  # who runs it where we are root, which it refuses to be


def programs() -> Path | None:
    """Where `initdb` and `pg_ctl` of the newest PostgreSQL are; None if there is none."""
    found = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    on_path = shutil.which("initdb")
    if not found and on_path:
        found = [Path(on_path).resolve().parent]
    return max(found, key=lambda path: path.parent.name.zfill(4), default=None)


@contextlib.contextmanager
def postgres() -> Iterator[str]:
    """Start a server, and stop it and remove its files afterwards; the URL of its database.

    It keeps nothing safe: a test's database need not survive the machine.
    """
    binaries = programs()
    if binaries is None:
        raise FileNotFoundError("PostgreSQL is not installed")
    folder = Path(tempfile.mkdtemp(prefix="lancerefs-postgres-"))
    try:
        server = _Server(binaries, folder)
        server.make()
        server.control("start", "-o", server.options())
        try:
            yield server.url
        finally:
            server.control("stop", "-m", "immediate")
    finally:
        shutil.rmtree(folder, ignore_errors=True)


class _Server:
    def __init__(self, binaries: Path, folder: Path) -> None:
        self._binaries = binaries
        self._folder = folder
        self._port = free_ports(1)[0]
        self._password = secrets.token_hex(16)
        self._servant = _servant()

    @property
    def url(self) -> str:
        login = f"{SUPERUSER}:{self._password}"
        return f"postgresql+psycopg2://{login}@127.0.0.1:{self._port}/postgres"

    def options(self) -> str:
        settings = {
            "fsync": "off",
            "full_page_writes": "off",
            "listen_addresses": "127.0.0.1",
            "port": self._port,
            "synchronous_commit": "off",
            "unix_socket_directories": self._folder,
        }
        return " ".join(f"-c {name}={value}" for name, value in settings.items())

    def make(self) -> None:
        """Make the files of a new server, which are its servant's own."""
        password = self._folder / "password"
        password.write_text(self._password)
        if self._servant:
            for path in (self._folder, password):
                os.chown(path, self._servant.pw_uid, self._servant.pw_gid)
        self._run("initdb", "--username", SUPERUSER, "--pwfile", str(password), "--auth=md5")
        password.unlink()

    def control(self, verb: str, *arguments: str) -> None:
        log = str(self._folder / "log")
        self._run("pg_ctl", "--wait", "--timeout", str(SECONDS), "--log", log, *arguments, verb)

    def _run(self, program: str, *arguments: str) -> None:
        """Run one of PostgreSQL's programs; its output goes to a file, which a server may keep."""
        said = self._folder / f"{program}.out"
        with said.open("wb") as output:
            done = subprocess.run(
                [str(self._binaries / program), "--pgdata", str(self._folder / "data"), *arguments],
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self._folder,
                timeout=2 * SECONDS,
                check=False,
                user=self._servant.pw_uid if self._servant else None,
                group=self._servant.pw_gid if self._servant else None,
                extra_groups=[] if self._servant else None,
            )
        if done.returncode:
            raise RuntimeError(f"{program} failed:\n{said.read_text(errors='replace')[-4000:]}")


def _servant() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    for name in SERVANTS:
        with contextlib.suppress(KeyError):
            return pwd.getpwnam(name)
    raise RuntimeError(f"PostgreSQL does not run as root, and none of {SERVANTS} is a user here")
