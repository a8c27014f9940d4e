"""What made a version: its transaction's operation and properties, without opening the dataset."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from google.protobuf.message import DecodeError

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore._proto import lance_transaction_pb2 as pb
from airflow_provider_lancerefs.refstore.errors import FormatError
from airflow_provider_lancerefs.refstore.manifest import Manifest
from airflow_provider_lancerefs.refstore.storage import Storage


@dataclass(frozen=True, slots=True)
class Transaction:
    """One commit: what it did, on which version, and what its maker noted on it.

    `operation` is the format's own name, such as 'append', or 'unknown' for a newer one.
    """

    operation: str
    read_version: int
    uuid: str
    properties: Mapping[str, str] = field(default_factory=dict)


def read_transaction(storage: Storage, branch: str, manifest: Manifest) -> Transaction | None:
    """The transaction that made a version, or None where its file is gone."""
    if manifest.inline_transaction:
        return decode(manifest.inline_transaction, f"{branch}@{manifest.version}")
    if not manifest.transaction_file:
        return None
    path = transaction_path(branch, manifest.transaction_file)
    blob = storage.read(path)
    return decode(blob.data, path) if blob else None


def read_transactions(
    storage: Storage, branch: str, manifests: Iterable[Manifest]
) -> dict[int, Transaction]:
    """The transactions of many versions at once, by version; those that are gone are left out."""
    found, paths = {}, {}
    for manifest in manifests:
        if manifest.inline_transaction:
            subject = f"{branch}@{manifest.version}"
            found[manifest.version] = decode(manifest.inline_transaction, subject)
        elif manifest.transaction_file:
            paths[transaction_path(branch, manifest.transaction_file)] = manifest.version
    for path, blob in storage.read_many(paths).items():
        found[paths[path]] = decode(blob.data, path)
    return found


def transaction_path(branch: str, file: str) -> str:
    return layout.in_branch(branch, f"{layout.TRANSACTIONS}/{file}")


def decode(data: bytes, subject: str) -> Transaction:
    """Read a transaction's bytes; raises FormatError for what is none."""
    try:
        message = pb.Transaction.FromString(data)
    except DecodeError as error:
        raise FormatError(
            f"The transaction of {subject} cannot be decoded: the file is damaged or foreign.",
            ref=subject,
        ) from error
    return Transaction(
        operation=message.WhichOneof("operation") or "unknown",
        read_version=message.read_version,
        uuid=message.uuid,
        properties=dict(message.properties),
    )
