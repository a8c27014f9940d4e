"""How the columns of a table lie in its data files, learnt from the writer itself.

A file names columns by the table's field ids, and which ids have a column of their own depends on
the file format's version. So one row is written aside, and what pylance says of it is carried over.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import pyarrow as pa


class Field(Protocol):
    def id(self) -> int: ...
    def children(self) -> Sequence[Field]: ...


@dataclass(frozen=True, slots=True)
class FileShape:
    """What a manifest says of each data file that holds all of a table's columns."""

    fields: tuple[int, ...]
    column_indices: tuple[int, ...]
    major: int
    minor: int


def file_shape(schema: pa.Schema, file_version: str, field_ids: Sequence[int] = ()) -> FileShape:
    """The shape of a file of this schema; a table that is there has ids of its own for fields."""
    import pyarrow as pa
    from lance.fragment import write_fragments

    plain = pa.schema([field.with_nullable(True) for field in schema])
    row = pa.Table.from_arrays([_any_row(field.type) for field in plain], schema=plain)
    with tempfile.TemporaryDirectory(prefix="lancerefs-") as folder:
        written = write_fragments(
            row, f"{folder}/one", schema=plain, mode="create", data_storage_version=file_version
        )
    file = written[0].files[0]
    names = [field_ids[one] for one in file.fields] if field_ids else file.fields
    return FileShape(
        tuple(names),
        tuple(file.column_indices),
        file.file_major_version,
        file.file_minor_version,
    )


def ids_of(fields: Sequence[Field]) -> Iterator[int]:
    """The ids of fields and of those inside them, in the order in which a walk meets them."""
    for field in fields:
        yield field.id()
        yield from ids_of(field.children())


def _any_row(kind: pa.DataType, rows: int = 1) -> pa.Array:
    """Rows without a null where an older file format cannot write one."""
    import pyarrow as pa

    if pa.types.is_struct(kind):
        children = [_any_row(field.type, rows) for field in kind]
        return pa.StructArray.from_arrays(children, fields=[*kind])
    if pa.types.is_fixed_size_list(kind):
        return pa.FixedSizeListArray.from_arrays(
            _any_row(kind.value_type, rows * kind.list_size), type=kind
        )
    if pa.types.is_nested(kind):
        return pa.array([[]] * rows, kind)
    if pa.types.is_primitive(kind) and not pa.types.is_boolean(kind):
        width = kind.bit_width // 8
        return pa.Array.from_buffers(kind, rows, [None, pa.py_buffer(bytes(width * rows))])
    return pa.nulls(rows, kind)
