"""A real S3 server for tests and benchmarks: SeaweedFS on free loopback ports."""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from airflow_provider_lancerefs.refstore import LanceRefsError
from airflow_provider_lancerefs.refstore.storage import open_storage
from tests.services.ports import free_ports

BUCKET = "lancerefs"
GRPC = 10_000  # above a port is another that SeaweedFS takes
START_SECONDS = 60
TAKEN = ("address already in use", "Port allocation failed")
TRIES = 3


@dataclass(frozen=True)
class S3Server:
    """Where the server listens and how to get in, in pylance's own option keys."""

    port: int
    access_key: str
    secret_key: str

    def storage_options(self, port: int | None = None) -> dict[str, str]:
        """The options for this server, or for a proxy of it listening on `port`."""
        keys = {
            "aws_access_key_id": self.access_key,
            "aws_secret_access_key": self.secret_key,
        }
        return {
            **(keys if self.access_key else {"aws_skip_signature": "true"}),
            "aws_endpoint": f"http://127.0.0.1:{port or self.port}",
            "aws_region": "us-east-1",
            "allow_http": "true",
        }


class TakenPortError(RuntimeError):
    """Somebody took a port between its choice and its use."""


@contextlib.contextmanager
def s3_server(*, anonymous: bool = False) -> Iterator[S3Server]:
    """Start SeaweedFS with one bucket, and stop it and remove its files afterwards.

    An anonymous one lets everybody do everything, and takes unsigned requests.
    """
    with contextlib.ExitStack() as started:
        for left in reversed(range(TRIES)):
            try:
                server = started.enter_context(_server(anonymous))
            except TakenPortError:
                if not left:
                    raise
            else:
                yield server
                return


@contextlib.contextmanager
def _server(anonymous: bool) -> Iterator[S3Server]:
    folder = Path(tempfile.mkdtemp(prefix="lancerefs-s3-"))
    ports = free_ports(7, beside=GRPC)
    server = S3Server(
        ports[0],
        "" if anonymous else "lancerefs-test",
        "" if anonymous else secrets.token_hex(16),
    )
    keys = {"AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key}
    others = {key: value for key, value in os.environ.items() if not key.startswith("AWS_")}
    log = (folder / "log").open("wb")
    process = subprocess.Popen(
        _command(folder, ports),
        stdout=log,
        stderr=subprocess.STDOUT,
        env=others if anonymous else {**others, **keys},
        start_new_session=True,
    )
    try:
        _wait_until_up(server, process, folder / "log")
        yield server
    finally:
        process.kill()  # its data goes with it: nothing to shut down in order
        process.wait(20)
        log.close()
        shutil.rmtree(folder, ignore_errors=True)


def _command(folder: Path, ports: list[int]) -> list[str]:
    s3, master, volume, filer, admin, s3_grpc, filer_grpc = (str(port) for port in ports)
    weed = Path(sys.executable).with_name("weed")
    return [
        str(weed),
        "mini",
        f"-dir={folder / 'data'}",
        "-ip=127.0.0.1",
        "-ip.bind=127.0.0.1",
        f"-bucket={BUCKET}",
        "-admin.ui=false",
        "-master.telemetry=false",
        "-webdav=false",
        f"-s3.port={s3}",
        f"-s3.port.grpc={s3_grpc}",
        "-s3.port.iceberg=0",
        "-s3.port.lance=0",
        f"-master.port={master}",
        f"-volume.port={volume}",
        f"-filer.port={filer}",
        f"-filer.port.grpc={filer_grpc}",
        f"-admin.port={admin}",
    ]


def _wait_until_up(server: S3Server, process: subprocess.Popen[bytes], log: Path) -> None:
    """It answers before its bucket is there, and asks for a signature before it looks for one."""
    bucket = open_storage(f"s3://{BUCKET}", server.storage_options())
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        try:
            bucket.list("", limit=1)
        except LanceRefsError:
            time.sleep(0.1)
        else:
            return
    said = log.read_text(errors="replace")[-4000:]
    kind = TakenPortError if any(one in said for one in TAKEN) else RuntimeError
    raise kind(f"SeaweedFS did not start:\n{said}")
