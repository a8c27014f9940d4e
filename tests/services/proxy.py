"""A proxy in front of an S3 server that counts requests, delays them and breaks them on purpose."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import parse_qs, unquote, urlsplit

Fault = Literal["drop request", "drop reply"]
CHUNK = 1 << 16


@dataclass(frozen=True)
class Request:
    """One request as it arrived: `kind` is LIST for a listing, else the HTTP method."""

    method: str
    path: str
    query: str
    arrived: float = field(default_factory=time.monotonic, compare=False)

    @property
    def kind(self) -> str:
        keys = parse_qs(self.query, keep_blank_values=True)
        if self.method == "GET" and ("list-type" in keys or "prefix" in keys):
            return "LIST"
        if self.method == "POST" and "delete" in keys:
            return "DELETE"
        return self.method

    def __str__(self) -> str:
        return f"{self.kind} {self.path}{'?' + unquote(self.query) if self.query else ''}"


@dataclass
class Recording:
    """The requests seen while it was open."""

    requests: list[Request] = field(default_factory=list)

    def __len__(self) -> int:
        return len(self.requests)

    @property
    def kinds(self) -> Counter[str]:
        return Counter(request.kind for request in self.requests)


class S3Proxy:
    """Forwards bytes as they are, so that signatures made for its own address stay valid.

    A request is passed on once all of it has come: SeaweedFS makes an empty object of one whose
    sender dies between head and body, which S3 does not.

    `latency` is waited before every request. `fault` may name a way to break one: a dropped
    request never reaches the server, a dropped reply has done its work there. `passes` is told the
    server's status once that is known, and may still keep the reply back. `rewrite` may change the
    head of a request, which only an unsigned one survives.
    """

    def __init__(self, upstream_port: int) -> None:
        self.upstream_port = upstream_port
        self.port = 0
        self.latency = 0.0
        self.fault: Callable[[Request], Fault | None] = lambda request: None
        self.passes: Callable[[Request, int], bool] = lambda request, status: True
        self.rewrite: Callable[[bytes], bytes] = lambda head: head
        self._under_way = 0
        self._settled = threading.Condition()
        self._recordings: list[Recording] = []
        self._loop = asyncio.new_event_loop()
        self._started = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> S3Proxy:
        self._thread.start()
        self._started.wait()
        return self

    def __exit__(self, *exc: object) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    @contextlib.contextmanager
    def recording(self) -> Iterator[Recording]:
        recording = Recording()
        self._recordings.append(recording)
        try:
            yield recording
        finally:
            self._recordings.remove(recording)

    @contextlib.contextmanager
    def breaking(self, fault: Callable[[Request], Fault | None]) -> Iterator[None]:
        before, self.fault = self.fault, fault
        try:
            yield
        finally:
            self.fault = before

    def settle(self, seconds: float = 30) -> None:
        """Wait until the server has answered whatever was passed on to it."""
        with self._settled:
            if not self._settled.wait_for(lambda: not self._under_way, seconds):
                raise TimeoutError(f"{self._under_way} requests were not answered in time")

    @contextlib.contextmanager
    def _awaited(self) -> Iterator[None]:
        with self._settled:
            self._under_way += 1
        try:
            yield
        finally:
            with self._settled:
                self._under_way -= 1
                self._settled.notify_all()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        server = self._loop.run_until_complete(
            asyncio.start_server(self._serve, "127.0.0.1", 0, limit=1 << 20)
        )
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        self._loop.run_forever()
        server.close()
        tasks = asyncio.all_tasks(self._loop)
        for task in tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
        self._loop.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        upstream: asyncio.StreamWriter | None = None
        try:
            up_reader, upstream = await asyncio.open_connection("127.0.0.1", self.upstream_port)
            while await self._exchange(reader, writer, up_reader, upstream):
                pass
        except (OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            pass
        finally:
            for one in (writer, upstream):
                if one is not None:
                    one.close()

    async def _exchange(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> bool:
        """Carry one request and its reply; False when the connection is to be closed."""
        head = await reader.readuntil(b"\r\n\r\n")
        with self._awaited():
            return await self._carry(head, reader, writer, up_reader, up_writer)

    async def _carry(
        self,
        head: bytes,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        up_reader: asyncio.StreamReader,
        up_writer: asyncio.StreamWriter,
    ) -> bool:
        method, target, _ = head.split(b"\r\n", 1)[0].decode().split(" ")
        parts = urlsplit(target)
        request = Request(method, unquote(parts.path), parts.query)
        for recording in self._recordings:
            recording.requests.append(request)
        if self.latency:
            await asyncio.sleep(self.latency)
        fault = self.fault(request)
        if fault == "drop request":
            return False
        headers = _headers(head)
        expects = headers.get("expect", "").lower() == "100-continue"
        if expects:
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = _Whole()
        await _body(headers, reader, body)
        up_writer.write(self.rewrite(head))
        reply = await _answer(up_reader) if expects else b""
        if not expects or _status(reply) == 100:
            up_writer.write(body.data)
            await up_writer.drain()
            reply = await _answer(up_reader)
        if not self.passes(request, _status(reply)) or fault == "drop reply":
            return False
        writer.write(reply)
        if method != "HEAD" and _status(reply) not in (204, 304):
            await _body(_headers(reply), up_reader, writer)
        await writer.drain()
        return b"connection: close" not in reply.lower()


class _Whole:
    """A request's body, kept back until all of it is there."""

    def __init__(self) -> None:
        self.data = bytearray()

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        """It takes any amount."""


async def _answer(reader: asyncio.StreamReader) -> bytes:
    return await reader.readuntil(b"\r\n\r\n")


def _status(reply: bytes) -> int:
    return int(reply.split(b" ", 2)[1])


def _headers(head: bytes) -> dict[str, str]:
    lines = head.decode("latin-1").split("\r\n")[1:]
    return {
        name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }


async def _body(
    headers: dict[str, str], source: asyncio.StreamReader, target: asyncio.StreamWriter | _Whole
) -> None:
    if headers.get("transfer-encoding", "").lower() == "chunked":
        while True:
            line = await source.readuntil(b"\r\n")
            data = await source.readexactly(int(line.split(b";")[0], 16) + 2)
            target.write(line + data)
            await target.drain()
            if data == b"\r\n":
                return
    left = int(headers.get("content-length", "0"))
    while left:
        data = await source.readexactly(min(left, CHUNK))
        target.write(data)
        await target.drain()
        left -= len(data)
    await target.drain()
