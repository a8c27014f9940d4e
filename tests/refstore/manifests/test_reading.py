"""What pylance writes is read as pylance reads it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import lance

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.manifest import Feature, FileRef, parse_manifest
from tests.refstore.manifests.files import head_file, read
from tests.tables import Place


def test_versions_are_those_of_pylance(uri: str) -> None:
    """Number, branch, time and count of rows are what pylance reports."""
    dataset, manifest = lance.dataset(uri), read(uri)
    [said] = [one for one in dataset.versions() if one["version"] == dataset.version]
    assert manifest.version == dataset.version
    assert manifest.branch == (uri.partition("/tree/")[2] or "main")
    assert abs(manifest.created_at - said["timestamp"].astimezone(UTC)) < timedelta(microseconds=2)
    assert manifest.rows == dataset.count_rows()


def test_fragments_are_those_of_pylance(uri: str) -> None:
    """Each fragment's id, rows, data files and deletion file are what pylance reports."""
    dataset, manifest = lance.dataset(uri), read(uri)
    found = {fragment.identity: fragment for fragment in manifest.fragments}
    assert set(found) == {fragment.fragment_id for fragment in dataset.get_fragments()}
    for said in (fragment.metadata for fragment in dataset.get_fragments()):
        fragment = found[said.id]
        assert fragment.physical_rows == said.physical_rows
        assert fragment.rows == said.num_rows
        assert fragment.data == tuple(
            FileRef("data", file.path, file.base_id, file.file_size_bytes) for file in said.files
        )
        deletion = said.deletion_file
        assert (fragment.deletion is None) is (deletion is None)
        if deletion is not None:
            assert fragment.deletion == FileRef(
                "_deletions", Path(deletion.path(said.id)).name, deletion.base_id
            )


def test_base_paths_are_those_of_pylance(uri: str) -> None:
    """Each base path's id, place, kind and name are what pylance reports."""
    said = lance.dataset(uri).base_paths()
    found = read(uri).bases
    assert set(found) == set(said)
    for identity, base in said.items():
        assert found[identity].identity == base.id == identity
        assert found[identity].path == base.path
        assert found[identity].is_dataset_root == base.is_dataset_root
        assert found[identity].name == base.name


def test_indices_are_those_of_pylance(uri: str) -> None:
    """Each index segment's id, name, base and size are what pylance reports."""
    said = {
        segment.uuid: (index.name, segment.base_id, segment.size_bytes)
        for index in lance.dataset(uri).describe_indices()
        for segment in index.segments
    }
    found = {
        index.identity: (index.name, index.base_id, sum(file.size or 0 for file in index.files))
        for index in read(uri).indices
    }
    assert found == said


def test_every_file_is_where_pylance_says(uri: str) -> None:
    """Resolved through all base paths, data and deletion files are exactly those pylance tracks."""
    manifest = read(uri)
    said = {
        f"{file['base_uri']}/{file['path']}"
        for file in lance.dataset(uri).tracked_files().read_all().to_pylist()
        if file["version"] == manifest.version and file["type"] in ("data file", "deletion file")
    }
    assert {manifest.resolve(file, uri) for file in manifest.files} == said


def test_every_file_exists(uri: str) -> None:
    """Each file stands where it resolves to, an index's below a folder of the index's own."""
    manifest = read(uri)
    for file in manifest.files:
        assert Path(manifest.resolve(file, uri)).is_file()
    for index in manifest.indices:
        assert index.files
        for file in index.files:
            assert file.path.startswith(f"{index.identity}/")
            assert Path(manifest.resolve(file, uri)).stat().st_size == file.size


def test_data_files_have_the_size_that_is_recorded(uri: str) -> None:
    """The size of each data file is the one on disk."""
    manifest = read(uri)
    for file in manifest.files:
        if file.folder == layout.DATA:
            assert file.size == Path(manifest.resolve(file, uri)).stat().st_size


def test_the_transaction_file_is_named(uri: str) -> None:
    """The transaction that made a version is the file that pylance wrote for it."""
    assert Path(uri, layout.TRANSACTIONS, read(uri).transaction_file).is_file()


def test_the_tables_hold_what_they_are_for(uris: dict[str, str]) -> None:
    """The tables of this module do have the parts of the format that they are to show."""
    manifests = {name: read(uri) for name, uri in uris.items()}
    kinds = {Path(file.path).suffix for file in manifests["deletions"].files}
    assert kinds == {".lance", ".arrow", ".bin"}
    assert not layout.is_v2_manifest(str(head_file(uris["v1"])))
    assert {one.base_id for one in manifests["branch_of_branch"].files} == {None, 0, 1}
    assert {one.base_id for one in manifests["branch_of_branch"].indices} != {None}
    assert {one.is_dataset_root for one in manifests["bases"].bases.values()} == {True, False}
    assert len([one for one in manifests["indices"].indices if one.name == "tree"]) == 2
    assert manifests["stable_row_ids"].reader_flags & Feature.STABLE_ROW_IDS
    assert manifests["deletions"].reader_flags & Feature.DELETION_FILES
    assert manifests["clone"].reader_flags & Feature.BASE_PATHS
    assert any(len(one.data) > 1 for one in manifests["added_columns"].fragments)
    assert manifests["emptied"].rows == 0


def test_old_versions_are_read_too(uris: dict[str, str]) -> None:
    """Every version of a table, and not its head alone, is read as what pylance makes of it."""
    for path in Path(uris["deletions"], "_versions").glob("*.manifest"):
        manifest = parse_manifest(path.read_bytes(), "it")
        assert manifest.version == layout.manifest_number(str(path))
        assert manifest.rows == lance.dataset(uris["deletions"], manifest.version).count_rows()


def test_manifests_are_plain_values(uris: dict[str, str]) -> None:
    """Two readings of one file are equal, and times are in UTC."""
    assert read(uris["indices"]) == read(uris["indices"])
    assert read(uris["indices"]).created_at.tzinfo is UTC
    assert read(uris["indices"]).created_at <= datetime.now(UTC)


def test_place_and_manifest_agree(tmp_path: Path) -> None:
    """The store's own way to a manifest gives the same as its bytes."""
    place = Place(str(tmp_path)).create().append(4)
    assert place.store().manifest("main@1") == parse_manifest(
        (tmp_path / layout.manifest_path("main", 1)).read_bytes(), "it"
    )
