"""What publishing stands on in pylance, pinned: a release that changes one of these turns red."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from uuid import uuid4

import lance
import pytest
from lance import LanceDataset, LanceOperation, Transaction

from tests.tables import Place

NEVER_A_FRAGMENT = 1 << 62


@pytest.fixture
def table(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "table")).create([1, 2, 3])


def commit(
    table: Place, read_version: int, through: LanceDataset | None = None, **update: object
) -> LanceDataset:
    operation = LanceOperation.Update(**update)  # type: ignore[arg-type]
    transaction = Transaction(read_version, operation, uuid=str(uuid4()))
    return LanceDataset.commit(through or table.uri, transaction, max_retries=0)


def test_no_retries_is_not_strict(table: Place) -> None:
    """With `max_retries=0` a commit on an older version still lands, on top of what came after."""
    table.append(4).append(5)
    assert commit(table, 1).version == 4
    assert table.values() == [1, 2, 3, 4, 5]


def test_an_empty_update_is_a_version_without_a_change(table: Place) -> None:
    """The anchor: a commit of nothing is allowed, lands one above the head, and changes no row."""
    assert commit(table, 1).version == 2
    assert table.values() == [1, 2, 3]
    table.open().validate()


def test_an_unkept_read_version_that_was_cleaned_up_is_refused(table: Place) -> None:
    """A commit on a version that is gone fails: so an anchor that nobody keeps protects."""
    anchor = commit(table, 1).version
    table.append(4)
    table.open().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    with pytest.raises(OSError, match="was not found"):
        commit(table, anchor)


def test_a_read_version_that_is_open_is_taken_to_stand(table: Place) -> None:
    """Through the read version itself a commit lands though that is gone, and a conflict with it.

    Through an earlier one Lance looks for it, and refuses.
    """
    earlier = table.open()
    anchor = commit(table, 1)
    table.delete("n = 1")
    table.append(4)
    table.open().cleanup_old_versions(older_than=timedelta(0), delete_unverified=True)
    with pytest.raises(OSError, match="was not found"):
        commit(table, anchor.version, through=earlier, removed_fragment_ids=[0])
    assert table.values() == [2, 3, 4]
    commit(table, anchor.version, through=anchor, removed_fragment_ids=[0])
    assert table.values() == [4]


def test_of_two_commits_that_remove_one_fragment_one_lands(table: Place) -> None:
    """The fence: it excludes even where the fragment never was, and whatever came in between."""
    assert commit(table, 1, removed_fragment_ids=[NEVER_A_FRAGMENT]).version == 2
    table.append(4)
    with pytest.raises(OSError, match="onflict"):
        commit(table, 1, removed_fragment_ids=[NEVER_A_FRAGMENT])
    assert table.open().version == 3
    assert commit(table, 3, removed_fragment_ids=[NEVER_A_FRAGMENT + 1]).version == 4


def test_a_row_s_address_tells_its_place(table: Place) -> None:
    """`_rowaddr` is fragment and physical offset; `_rowoffset` counts only the rows that live."""
    table.delete("n = 1")
    columns = ["n", "_rowaddr", "_rowoffset"]
    rows = lance.dataset(table.uri).scanner(columns=columns).to_table()
    assert rows["_rowaddr"].to_pylist() == [1, 2]
    assert rows["_rowoffset"].to_pylist() == [0, 1]


def test_a_fragment_without_a_living_row_is_dropped(table: Place) -> None:
    """A commit drops a fragment all of whose rows are deleted, and keeps no trace of it."""
    table.append(4)
    table.delete("n < 4")
    assert [fragment.fragment_id for fragment in table.open().get_fragments()] == [1]
