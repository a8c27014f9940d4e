"""The process that reads and writes Lance for all tasks of one JVM, which starts it and asks it.

It listens on a socket in a folder that only its user can enter, and ends when its standard input
does. The driver has one too, which finds out what is to be done, and commits what was. Executors
import this, so it asks for no more than pyspark, pyarrow and pylance, but where the driver alone
comes. The other side of each conversation is `Conversation.java`.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import os
import pickle
import shutil
import signal
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from pyspark.sql import datasource
from pyspark.sql.types import StructType

from airflow_provider_lancerefs.spark.columns import batch_schema
from airflow_provider_lancerefs.spark.filters import pushed
from airflow_provider_lancerefs.spark.options import read_options, write_options
from airflow_provider_lancerefs.spark.reading import Snapshot, extent, parts, rows
from airflow_provider_lancerefs.spark.writing import write_task

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql.datasource import Filter

_PIECE, _END, _ERROR = b"p", b"e", b"x"


def main() -> None:
    """Serve on the socket that is named in the first argument, until standard input ends."""
    path = Path(sys.argv[1])
    signal.signal(signal.SIGTERM, lambda *_: _leave(path.parent))  # so YARN ends a container
    with socket.socket(socket.AF_UNIX) as server, os.fdopen(os.dup(1), "w") as said:
        os.dup2(2, 1)  # what libraries print is nobody's answer
        server.bind(str(path))
        server.listen()
        threading.Thread(target=_end_with_the_jvm, args=[path.parent], daemon=True).start()
        print("ready", file=said, flush=True)
        while True:
            threading.Thread(target=_answer, args=[server.accept()[0]], daemon=True).start()


def _end_with_the_jvm(folder: Path) -> None:
    try:
        while os.read(0, 1):
            pass
    finally:
        _leave(folder)


def _leave(folder: Path) -> NoReturn:
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(0)


class _Line:
    """One conversation's connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.source = connection.makefile("rb")

    def receive(self) -> bytes:
        return self._exactly(self.number())

    def receive_json(self) -> Any:
        return json.loads(self.receive())

    def number(self) -> int:
        return int(struct.unpack(">i", self._exactly(4))[0])

    def _exactly(self, size: int) -> bytes:
        said = self.source.read(size)
        if len(said) < size:
            raise ConnectionError("the task ended")
        return said

    def check_end(self) -> None:
        """Raise unless the task says that it sent everything."""
        self.receive()

    def say(self, *pieces: bytes) -> None:
        self._connection.sendall(b"".join(pieces))

    def piece(self, said: bytes) -> None:
        self.say(_PIECE, struct.pack(">i", len(said)), said)

    def refuse(self, reason: str) -> None:
        said = reason.encode()
        self.say(_ERROR, struct.pack(">i", len(said)), said)

    def end(self) -> None:
        """Have the task stop sending, and who still reads here stop reading."""
        with contextlib.suppress(OSError):  # the task may be gone by then
            self._connection.shutdown(socket.SHUT_RDWR)
        self.source.close()
        self._connection.close()

    # What pyarrow asks of a file.
    closed = False

    def write(self, said: Any) -> None:
        self._connection.sendall(said)

    def flush(self) -> None: ...


def _answer(connection: socket.socket) -> None:
    line = _Line(connection)
    try:
        work = _WORK[line.receive().decode()]
        work(line, line.receive())
        line.say(_END)
    except ConnectionError:
        pass  # the task was stopped, or its JVM
    except BaseException as error:  # the task has to hear of it, and pylance's panics are such
        kind = type(error)
        with contextlib.suppress(OSError):  # the task may be gone by then
            line.refuse(f"{kind.__module__}.{kind.__qualname__}: {error}")
    finally:
        line.end()


def _take(line: _Line, storages: bytes) -> None:
    from airflow_provider_lancerefs.spark.snapshots import take_snapshot

    snapshot, columns = take_snapshot(read_options(line.receive_json(), pickle.loads(storages)))
    number, size = extent(snapshot)
    title = f"{snapshot.uri}@{snapshot.version}"
    said = {"title": title, "columns": columns.json(), "rows": number, "bytes": size}
    line.piece(json.dumps(said).encode())
    line.piece(pickle.dumps(snapshot))


def _plan(line: _Line, order: bytes) -> None:
    snapshot: Snapshot = pickle.loads(order)
    cores = line.number()
    columns = StructType.fromJson(line.receive_json())
    filters = filter(None, map(_filter, line.receive_json()))
    sql = pushed(filters, snapshot.open().schema)
    for slices in parts(snapshot, sql, cores):
        line.piece(pickle.dumps((snapshot, columns, slices, sql)))


def _read(line: _Line, order: bytes) -> None:
    import pyarrow as pa

    snapshot, columns, slices, sql = pickle.loads(order)
    target = batch_schema(columns)
    stream = pa.ipc.new_stream(pa.PythonFile(line, mode="w"), target)
    for batch in rows(snapshot, target, slices, sql):
        line.say(_PIECE)
        stream.write_batch(batch)


def _prepare(line: _Line, storages: bytes) -> None:
    from airflow_provider_lancerefs.spark.preparing import prepare

    options = write_options(line.receive_json(), pickle.loads(storages))
    columns = StructType.fromJson(line.receive_json())
    write = prepare(options, columns, overwrite=bool(line.number()))
    line.piece(batch_schema(columns).serialize().to_pybytes())
    line.piece(pickle.dumps(write))


def _write(line: _Line, order: bytes) -> None:
    line.piece(pickle.dumps(write_task(pickle.loads(order), _ahead(_received(line)))))


def _commit(line: _Line, order: bytes) -> None:
    from airflow_provider_lancerefs.spark.committing import commit

    commit(pickle.loads(order), [pickle.loads(line.receive()) for _ in range(line.number())])


def _abort(line: _Line, order: bytes) -> None:
    from airflow_provider_lancerefs.spark.committing import abort

    abort(pickle.loads(order), may_have_landed=bool(line.number()))


def _received(line: _Line) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    with pa.ipc.open_stream(line.source) as stream:
        yield from stream
    line.check_end()


def _ahead(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Take in the next batch while one is being written."""
    taker = ThreadPoolExecutor(1)
    try:
        coming = taker.submit(next, batches, None)
        while (batch := coming.result()) is not None:
            coming = taker.submit(next, batches, None)
            yield batch
    finally:
        taker.shutdown(wait=False)


def _filter(said: Mapping[str, Any]) -> Filter | None:
    """One of Spark's filters, as `Filters.java` tells it; None where Python has no such."""
    kind = getattr(datasource, said["name"], None)
    if kind is None:
        return None
    parts = [_part(one) for one in said["parts"]]
    if _OTHER in parts:
        return None
    found: Filter = kind(*([tuple(said["column"])] if "column" in said else []), *parts)
    return found


def _part(said: Any) -> object:
    if isinstance(said, list):
        values = tuple(map(_part, said))
        return _OTHER if _OTHER in values else values
    if "name" in said:
        return _filter(said) or _OTHER
    try:
        return _VALUES[said["kind"]](said["text"])
    except OverflowError:  # a year that Python does not have
        return _OTHER


def _days(said: str) -> datetime.date:
    return _EPOCH.date() + datetime.timedelta(days=int(said))


def _microseconds(said: str) -> datetime.datetime:
    return _EPOCH + datetime.timedelta(microseconds=int(said))


_EPOCH = datetime.datetime(1970, 1, 1)
_OTHER = object()
_VALUES: Mapping[str, Callable[[str], object]] = {
    "bool": "true".__eq__,
    "int": int,
    "float": float,
    "str": str,
    "decimal": Decimal,
    "date": _days,
    "local": _microseconds,
    "moment": lambda said: _microseconds(said).replace(tzinfo=datetime.UTC),
    "null": lambda _: None,
    "other": lambda _: _OTHER,
}
_WORK = {
    "abort": _abort,
    "commit": _commit,
    "plan": _plan,
    "prepare": _prepare,
    "read": _read,
    "take": _take,
    "write": _write,
}


if __name__ == "__main__":
    main()
