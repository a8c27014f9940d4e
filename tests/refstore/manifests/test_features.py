"""A manifest with a feature that is not known is refused, be it to read or to relocate it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest

from airflow_provider_lancerefs.refstore import ErrorKind, FormatError
from airflow_provider_lancerefs.refstore._proto import lance_table_pb2 as pb
from airflow_provider_lancerefs.refstore.manifest import parse_manifest, rewrite_base_paths
from tests.refstore.manifests.files import edited, head_file

KNOWN_BITS = range(8)
RELOCATABLE_BITS = range(6)


def set_flags(reader: int = 0, writer: int = 0) -> Callable[[pb.Manifest], None]:
    def change(message: pb.Manifest) -> None:
        message.reader_feature_flags |= reader
        message.writer_feature_flags |= writer

    return change


def refusal(call: Callable[[], object]) -> FormatError | None:
    try:
        call()
    except FormatError as error:
        return error
    return None


def test_unknown_reader_flags_are_refused(uris: dict[str, str]) -> None:
    """A manifest is read if its reader flags are known; writer flags are no matter to readers."""
    data = head_file(uris["plain"]).read_bytes()
    for bit in range(64):
        assert parse_manifest(edited(data, set_flags(writer=1 << bit)), "it").writer_flags >> bit
        flagged = edited(data, set_flags(reader=1 << bit))
        error = refusal(partial(parse_manifest, flagged, "main@1"))
        if bit in KNOWN_BITS:
            assert error is None
            continue
        assert error is not None
        assert error.kind is ErrorKind.UNSUPPORTED_FEATURE
        assert str(error) == (
            f"main@1 uses features (flags {1 << bit}) that this version cannot read: "
            "upgrade airflow-provider-lancerefs."
        )


@pytest.mark.parametrize("side", ["reader", "writer"])
def test_what_is_not_proven_movable_is_refused(uris: dict[str, str], side: str) -> None:
    """Relocation refuses each flag, reader's or writer's, whose files may name their own bases."""
    data = head_file(uris["bases"]).read_bytes()
    errors = {}
    for bit in range(64):
        flagged = edited(data, set_flags(**{side: 1 << bit}))
        errors[bit] = refusal(partial(rewrite_base_paths, flagged, "main@1", str.upper))
    assert {bit for bit, error in errors.items() if error is None} == {*RELOCATABLE_BITS}
    for bit, error in errors.items():
        if error is not None:
            assert error.kind is ErrorKind.UNSUPPORTED_FEATURE
            assert str(error) == (
                f"main@1 uses features (flags {1 << bit}) that this version cannot relocate: "
                "upgrade airflow-provider-lancerefs."
            )
