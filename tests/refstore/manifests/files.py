"""Manifest files: those of tables, those made by hand, and those that are none."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path

import lance

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.manifest import Manifest, parse_manifest


def head_file(uri: str) -> Path:
    found = {layout.manifest_number(str(path)): path for path in Path(uri, "_versions").iterdir()}
    return found[lance.dataset(uri).version]


def read(uri: str) -> Manifest:
    return parse_manifest(head_file(uri).read_bytes(), "it")


def message_of(data: bytes) -> tuple[pb.Manifest, int]:
    [position] = struct.unpack_from("<q", data, len(data) - 16)
    [size] = struct.unpack_from("<I", data, position)
    return pb.Manifest.FromString(data[position + 4 : position + 4 + size]), position


def file_of(message: pb.Manifest, before: bytes = b"") -> bytes:
    """A manifest file that holds the message after some other bytes."""
    body = message.SerializeToString()
    trailer = struct.pack("<qHH4s", len(before), 0, 2, b"LANC")
    return before + struct.pack("<I", len(body)) + body + trailer


def edited(data: bytes, change: Callable[[pb.Manifest], object]) -> bytes:
    message, position = message_of(data)
    change(message)
    return file_of(message, data[:position])


FOREIGN = {
    "empty": b"",
    "short": b"LANC",
    "zeros": bytes(100),
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(200),
    "json": b'{"version": 1}' * 10,
    "page": b"<!DOCTYPE html><html>" + b" " * 100 + b"</html>",
    "magic alone": bytes(12) + b"LANC",
    "position before": struct.pack("<qHH4s", -1, 0, 2, b"LANC") * 2,
    "position far off": bytes(8) + struct.pack("<qHH4s", 2**63 - 1, 0, 2, b"LANC"),
    "position is the end": bytes(8) + struct.pack("<qHH4s", 8, 0, 2, b"LANC"),
    "length too long": b"\xff" * 8 + struct.pack("<qHH4s", 0, 0, 2, b"LANC"),
    "no message": struct.pack("<I", 8) + b"\xff" * 8 + struct.pack("<qHH4s", 0, 0, 2, b"LANC"),
}
