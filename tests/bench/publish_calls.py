"""The ways to bring a branch's new rows into main. Importing this loads all that they need."""

from __future__ import annotations

from collections.abc import Mapping

import lance
import s3fs  # noqa: F401  # so that no call's time holds its import

from airflow_provider_lancerefs.refstore import RefStore

BRANCH = "work"
LAST_OLD_FRAGMENT = 0  # of the version that the branch is forked from


def publish(uri: str, options: Mapping[str, str]) -> int:
    """Publish the branch; how many files that copied."""
    return RefStore.open(uri, options).publish(BRANCH).files_copied


def append(uri: str, options: Mapping[str, str]) -> int:
    """Read the branch's new fragments as a stream, and append that to main.

    That is the least that can be done without publishing: nothing but what is new is read, nothing
    is held in memory, and nobody asks whether main has moved on, or has the rows already.
    """
    main = lance.dataset(uri, storage_options=dict(options))
    branch = lance.dataset(f"{uri}/tree/{BRANCH}", storage_options=dict(options))
    new = [one for one in branch.get_fragments() if one.fragment_id > LAST_OLD_FRAGMENT]
    rows = branch.scanner(fragments=new).to_reader()
    lance.write_dataset(rows, main, mode="append", storage_options=dict(options))
    return 0
