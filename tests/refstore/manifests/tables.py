"""Tables that between them hold every part of a manifest."""

from __future__ import annotations

from collections.abc import Callable

import lance
import pyarrow as pa
from lance import DatasetBasePath

ROWS = 4_000


def table(*, first: int = 0, rows: int = ROWS) -> pa.Table:
    numbers = range(first, first + rows)
    vectors = pa.array([float(number % 7) for number in range(rows * 4)], pa.float32())
    return pa.table(
        {
            "n": pa.array(numbers, pa.int64()),
            "text": [f"word{number % 50}" for number in numbers],
            "vector": pa.FixedSizeListArray.from_arrays(vectors, 4),
        }
    )


def plain(uri: str) -> str:
    lance.write_dataset(table(), uri, max_rows_per_file=ROWS // 4)
    return uri


def v1(uri: str) -> str:
    lance.write_dataset(table(), uri, enable_v2_manifest_paths=False)
    lance.write_dataset(table(), uri, mode="append")
    return uri


def deletions(uri: str) -> str:
    """One fragment with a sparse deletion file, one with a dense one, one with none."""
    lance.write_dataset(table(rows=30_000), uri, max_rows_per_file=10_000)
    lance.dataset(uri).delete("n = 7")
    lance.dataset(uri).delete("n >= 10000 and n < 20000 and n % 2 = 0")
    return uri


def indices(uri: str) -> str:
    plain(uri)
    dataset = lance.dataset(uri)
    dataset.create_scalar_index("n", "BTREE", name="tree")
    dataset.create_scalar_index("text", "INVERTED", name="words")
    dataset.create_scalar_index("text", "BITMAP", name="bits")
    dataset.create_index("vector", "IVF_FLAT", name="near", num_partitions=2)
    lance.write_dataset(table(first=ROWS), uri, mode="append")
    lance.dataset(uri).optimize.optimize_indices(num_indices_to_merge=0)
    return uri


def stable_row_ids(uri: str) -> str:
    lance.write_dataset(table(), uri, enable_stable_row_ids=True, max_rows_per_file=ROWS // 2)
    lance.dataset(uri).update({"text": "'new'"}, "n < 3")
    return uri


def bases(uri: str) -> str:
    """Files in another root, in a plain folder and at home, each with a deletion file."""
    lance.write_dataset(
        table(rows=100),
        uri,
        initial_bases=[
            DatasetBasePath(path=f"{uri}-hot", name="hot", is_dataset_root=True),
            DatasetBasePath(path=f"{uri}-flat", is_dataset_root=False),
        ],
        target_bases=["hot"],
    )
    lance.write_dataset(
        table(first=100, rows=100), uri, mode="append", target_bases=[f"{uri}-flat"]
    )
    lance.write_dataset(table(first=200, rows=100), uri, mode="append")
    lance.dataset(uri).delete("n % 100 = 3")
    return uri


def branch_of_branch(uri: str) -> str:
    """A fork of a fork, with files of all three, an inherited index and two deletion files."""
    plain(uri)
    lance.dataset(uri).create_scalar_index("n", "BTREE", name="tree")
    lance.dataset(uri).delete("n = 7")
    lance.dataset(uri).create_branch("a")
    lance.write_dataset(table(first=ROWS), f"{uri}/tree/a", mode="append")
    lance.dataset(uri).create_branch("a/b", ("a", None))
    lance.write_dataset(table(first=2 * ROWS), f"{uri}/tree/a/b", mode="append")
    lance.dataset(f"{uri}/tree/a/b").delete(f"n = {ROWS} or n = 9")
    return f"{uri}/tree/a/b"


def clone(uri: str) -> str:
    deletions(f"{uri}-source")
    lance.dataset(f"{uri}-source").tags.create("v1.0", 3)
    lance.dataset(f"{uri}-source").shallow_clone(uri, "v1.0")
    lance.write_dataset(table(first=ROWS), uri, mode="append")
    return uri


def added_columns(uri: str) -> str:
    """Fragments of several data files each, one of a column that is no longer there."""
    plain(uri)
    lance.dataset(uri).add_columns({"twice": "n * 2"})
    lance.dataset(uri).drop_columns(["text"])
    lance.dataset(uri).update_config({"owner": "é"})
    lance.dataset(uri).update_schema_metadata({"k": "v"})
    return uri


def emptied(uri: str) -> str:
    plain(uri)
    lance.dataset(uri).delete("true")
    return uri


TABLES: dict[str, Callable[[str], str]] = {
    made.__name__: made
    for made in (
        plain,
        v1,
        deletions,
        indices,
        stable_row_ids,
        bases,
        branch_of_branch,
        clone,
        added_columns,
        emptied,
    )
}
