"""A version's manifest: which files it holds and where, read without opening the dataset.

The bytes end with `manifest message | i64 position | u16 major | u16 minor | LANC`; at the
position stand a u32 length and the message.
"""

from __future__ import annotations

import struct
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from enum import IntFlag
from typing import TypeVar

from google.protobuf.message import DecodeError, Message

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.errors import ErrorKind, FormatError
from airflow_provider_lancerefs.refstore.names import MAIN

_Parsed = TypeVar("_Parsed", bound=Message)
_MAGIC = b"LANC"
_TRAILER = struct.Struct("<qHH4s")
_LENGTH = struct.Struct("<I")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_FRAGMENT_REUSE = "FragmentReuseIndexDetails"


class Feature(IntFlag):
    """The format's feature flags; a flag that is not here must not be read past."""

    DELETION_FILES = 1
    STABLE_ROW_IDS = 2
    V2_FORMAT = 4
    TABLE_CONFIG = 8
    BASE_PATHS = 16
    NO_TRANSACTION_FILES = 32
    OVERLAYS = 64
    COVERING_INDICES = 128


_KNOWN = int(sum(Feature))
_RELOCATABLE = _KNOWN & ~int(Feature.OVERLAYS | Feature.COVERING_INDICES)


@dataclass(frozen=True, slots=True)
class BasePath:
    """A place other than the dataset's own folder where its files may be."""

    identity: int
    path: str
    is_dataset_root: bool
    name: str | None


@dataclass(frozen=True, slots=True)
class SchemaField:
    """A column, or a part of a nested one. `raw` is all that the manifest says of it."""

    identity: int
    name: str
    parent: int
    type: tuple[int, str]
    nullable: bool
    metadata: Mapping[str, bytes]
    raw: bytes


@dataclass(frozen=True, slots=True)
class Columns:
    """Which fields a data file holds, in which of its columns, in which version of the format."""

    fields: tuple[int, ...] = ()
    indices: tuple[int, ...] = ()
    file_version: tuple[int, int] = (0, 0)


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file as a manifest names it: relative to the folder of its kind in one of the bases."""

    folder: str
    path: str
    base_id: int | None
    size: int | None = None
    columns: Columns = field(default=Columns(), compare=False)


@dataclass(frozen=True, slots=True)
class IndexRef:
    """An index segment: a folder, and the files in it where the manifest lists them."""

    identity: str
    name: str
    base_id: int | None
    files: tuple[FileRef, ...]


@dataclass(frozen=True, slots=True)
class Fragment:
    """Rows that share a set of data files, less those that a deletion file strikes out.

    `row_ids` are its stable row ids, encoded; it is `plain` unless it has overlays, or keeps its
    row ids in a file of their own.
    """

    identity: int
    physical_rows: int
    deleted_rows: int
    data: tuple[FileRef, ...]
    deletion: FileRef | None
    row_ids: bytes = b""
    plain: bool = True

    @property
    def rows(self) -> int:
        return self.physical_rows - self.deleted_rows


@dataclass(frozen=True, slots=True)
class Manifest:
    """What one version consists of."""

    version: int
    branch: str
    created_at: datetime
    reader_flags: int
    writer_flags: int
    bases: Mapping[int, BasePath]
    fragments: tuple[Fragment, ...]
    indices: tuple[IndexRef, ...]
    transaction_file: str
    movable: bool
    inline_transaction: bytes = b""
    fields: tuple[SchemaField, ...] = ()
    schema_metadata: Mapping[str, bytes] = field(default_factory=dict)
    storage_format: str = ""
    max_fragment_id: int = 0
    next_row_id: int = 0

    @property
    def rows(self) -> int:
        return sum(fragment.rows for fragment in self.fragments)

    @property
    def files(self) -> Iterator[FileRef]:
        """Data and deletion files, in the order of the fragments."""
        for fragment in self.fragments:
            yield from fragment.data
            if fragment.deletion is not None:
                yield fragment.deletion

    def resolve(self, file: FileRef, home: str) -> str:
        """The absolute place of a file; `home` is where this manifest's dataset stands."""
        if file.base_id is None:
            return layout.file_in_base(home, file.folder, file.path, is_dataset_root=True)
        base = self.bases.get(file.base_id)
        if base is None:
            raise FormatError(
                f"Version {self.version} names base path {file.base_id}, which its manifest lacks: "
                "the dataset is damaged."
            )
        return layout.file_in_base(
            base.path, file.folder, file.path, is_dataset_root=base.is_dataset_root
        )


def parse_manifest(data: bytes, subject: str) -> Manifest:
    """Read a manifest's bytes; `subject` names the version in errors.

    Raises FormatError for bytes that are no manifest, and for one that needs features which this
    version does not know (kind `unsupported-feature`).
    """
    message, position = _message(data, subject)
    _check_flags(message.reader_feature_flags, _KNOWN, "read", subject)
    section = _index_section(data, message, position, subject)
    return Manifest(
        version=message.version,
        branch=message.branch or MAIN,
        created_at=_moment(message, subject),
        reader_flags=message.reader_feature_flags,
        writer_flags=message.writer_feature_flags,
        bases={
            base.id: BasePath(
                base.id,
                base.path,
                base.is_dataset_root,
                base.name if base.HasField("name") else None,
            )
            for base in message.base_paths
        },
        fragments=tuple(_fragment(fragment) for fragment in message.fragments),
        indices=tuple(_index(index) for index in section.indices),
        transaction_file=message.transaction_file and _inside(message.transaction_file),
        movable=not any(_FRAGMENT_REUSE in index.details.type_url for index in section.indices),
        inline_transaction=_inline_transaction(data, message, position, subject),
        fields=tuple(_schema_field(one) for one in message.fields),
        schema_metadata=dict(message.schema_metadata),
        storage_format=message.data_format.version,
        max_fragment_id=message.max_fragment_id,
        next_row_id=message.next_row_id,
    )


def check_writable(manifest: Manifest, subject: str) -> None:
    """Raise FormatError (`unsupported-feature`) for what only a newer writer may commit to."""
    _check_flags(manifest.writer_flags, _KNOWN, "write", subject)


def rewrite_base_paths(
    data: bytes, subject: str, repoint: Callable[[str], str], *, as_root: bool = False
) -> bytes:
    """The same manifest with every base path passed through `repoint`, and nothing else changed.

    `as_root` also leaves out the branch's name: pylance finds no refs where a manifest that is not
    below a `tree/` folder has one. Raises FormatError (`unsupported-feature`) for features whose
    files may hold base ids of their own, and for what a newer writer marked.
    """
    message, position = _message(data, subject)
    _check_flags(message.reader_feature_flags, _RELOCATABLE, "relocate", subject)
    _check_flags(message.writer_feature_flags, _RELOCATABLE, "relocate", subject)
    for base in message.base_paths:
        base.path = repoint(base.path)
    if as_root:
        message.ClearField("branch")
    body = message.SerializeToString(deterministic=True)
    trailer = data[-_TRAILER.size :]
    return data[:position] + _LENGTH.pack(len(body)) + body + trailer


def _message(data: bytes, subject: str) -> tuple[pb.Manifest, int]:
    if len(data) < _TRAILER.size + _LENGTH.size:
        raise _corrupt(subject, "is too short")
    position, _, _, magic = _TRAILER.unpack_from(data, len(data) - _TRAILER.size)
    if magic != _MAGIC:
        raise _corrupt(subject, "does not end as one")
    body, _ = _section(data, position, len(data) - _TRAILER.size, subject)
    return _parse(pb.Manifest, body, subject), position


def _section(data: bytes, position: int, end: int, subject: str) -> tuple[bytes, int]:
    """The length-prefixed message at a position, and where it ends."""
    if not 0 <= position <= end - _LENGTH.size:
        raise _corrupt(subject, "points outside itself")
    start = position + _LENGTH.size
    stop = start + _LENGTH.unpack_from(data, position)[0]
    if stop > end:
        raise _corrupt(subject, "is cut short")
    return data[start:stop], stop


def _index_section(
    data: bytes, message: pb.Manifest, position: int, subject: str
) -> pb.IndexSection:
    if not message.HasField("index_section"):
        return pb.IndexSection()
    body, _ = _section(data, message.index_section, position, subject)
    return _parse(pb.IndexSection, body, subject)


def _inline_transaction(data: bytes, message: pb.Manifest, position: int, subject: str) -> bytes:
    if not message.HasField("transaction_section"):
        return b""
    return _section(data, message.transaction_section, position, subject)[0]


def _parse(kind: type[_Parsed], body: bytes, subject: str) -> _Parsed:
    try:
        return kind.FromString(body)
    except DecodeError as error:
        raise _corrupt(subject, "cannot be decoded") from error


def _moment(message: pb.Manifest, subject: str) -> datetime:
    try:
        return _EPOCH + timedelta(
            seconds=message.timestamp.seconds, microseconds=message.timestamp.nanos // 1000
        )
    except OverflowError as error:
        raise _corrupt(subject, "has an impossible time") from error


def _fragment(fragment: pb.DataFragment) -> Fragment:
    overlays = [overlay.data_file for overlay in fragment.overlays]
    deletion = fragment.deletion_file if fragment.HasField("deletion_file") else None
    return Fragment(
        identity=fragment.id,
        physical_rows=fragment.physical_rows,
        deleted_rows=deletion.num_deleted_rows if deletion else 0,
        data=tuple(_data_file(file) for file in [*fragment.files, *overlays]),
        deletion=_deletion_file(fragment.id, deletion) if deletion else None,
        row_ids=fragment.inline_row_ids,
        plain=not overlays and not fragment.HasField("external_row_ids"),
    )


def _schema_field(said: pb.Field) -> SchemaField:
    return SchemaField(
        identity=said.id,
        name=said.name,
        parent=said.parent_id,
        type=(said.type, said.logical_type),
        nullable=said.nullable,
        metadata=dict(said.metadata),
        raw=said.SerializeToString(deterministic=True),
    )


def _deletion_file(fragment: int, deletion: pb.DeletionFile) -> FileRef:
    bitmap = deletion.file_type == pb.DeletionFile.BITMAP
    name = layout.deletion_name(fragment, deletion.read_version, deletion.id, bitmap=bitmap)
    return FileRef(layout.DELETIONS, name, _base_id(deletion))


def _data_file(file: pb.DataFile) -> FileRef:
    columns = Columns(
        tuple(file.fields),
        tuple(file.column_indices),
        (file.file_major_version, file.file_minor_version),
    )
    size = file.file_size_bytes or None
    return FileRef(layout.DATA, _inside(file.path), _base_id(file), size, columns)


def _inside(path: str) -> str:
    """A path that stays in its folder; a manifest may have been written by anybody."""
    if path.startswith("/") or any(part in ("", ".", "..") for part in path.split("/")):
        raise FormatError(f"A manifest names the file {path[:80]!r}, which is outside its folder.")
    return path


def _index(index: pb.IndexMetadata) -> IndexRef:
    if len(index.uuid.uuid) != 16:
        raise FormatError(f"A manifest names the index {index.name[:80]!r} without a valid UUID.")
    identity = str(uuid.UUID(bytes=index.uuid.uuid))
    base_id = _base_id(index)
    return IndexRef(
        identity=identity,
        name=index.name,
        base_id=base_id,
        files=tuple(
            FileRef(
                layout.INDICES, f"{identity}/{_inside(file.path)}", base_id, file.size_bytes or None
            )
            for file in index.files
        ),
    )


def _base_id(message: pb.DataFile | pb.DeletionFile | pb.IndexMetadata) -> int | None:
    return message.base_id if message.HasField("base_id") else None


def _check_flags(flags: int, known: int, verb: str, subject: str) -> None:
    unknown = flags & ~known
    if unknown:
        raise FormatError(
            f"{subject} uses features (flags {unknown}) that this version cannot {verb}: "
            "upgrade airflow-provider-lancerefs.",
            kind=ErrorKind.UNSUPPORTED_FEATURE,
        )


def _corrupt(subject: str, what: str) -> FormatError:
    return FormatError(f"The manifest of {subject} {what}: the file is damaged or foreign.")
