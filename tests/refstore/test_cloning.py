from __future__ import annotations

import uuid
from pathlib import Path

import lance
import pyarrow as pa
import pytest

from airflow_provider_lancerefs.refstore import (
    AlreadyExistsError,
    InvalidInputError,
    RefStore,
    RefusedError,
    StorageError,
    VersionNotFoundError,
)
from tests.tables import Place


class TestShallowClone:
    def test_a_clone_keeps_its_rows_whatever_happens_to_its_source(self, place: Place) -> None:
        """A clone reads and writes on its own, and its source's cleanup leaves its files."""
        place.create([1]).append(2)
        clone = place.beside("clone")
        version = place.store().shallow_clone(clone.uri, "main@1")
        assert (version.branch, version.number) == ("main", 1)
        clone.append(9)
        place.overwrite(5)
        place.clean_up()
        assert clone.values() == [1, 9]
        assert place.values() == [5]
        assert clone.store().check().clean

    def test_the_pin_is_a_protected_tag(self, place: Place) -> None:
        """The source carries one tag for the clone, and it takes force to delete it."""
        place.create([1])
        store = place.store()
        clone = place.beside("clone")
        store.shallow_clone(clone.uri)
        (name,) = store.tag_names()
        assert store.tag(name).metadata["lancerefs.pin"] == clone.uri
        with pytest.raises(RefusedError):
            store.delete_tag(name)
        store.delete_tag(name, force=True)
        (finding,) = clone.store().check().findings
        assert (finding.code, finding.subject) == ("lost-pin", place.uri)

    def test_a_branch_can_be_cloned(self, place: Place) -> None:
        """A clone of a branch is a dataset of its own; the pin keeps the branch from deletion."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(2)
        clone = place.beside("clone")
        store.shallow_clone(clone.uri, "branch:a")
        assert clone.values() == [1, 2]
        assert clone.open().branches.list() == {}
        with pytest.raises(RefusedError, match="needed by tag 'clone-"):
            store.delete_branch("a")
        assert clone.store().check().clean

    def test_a_retry_finds_the_clone(self, place: Place) -> None:
        """The same call again returns the clone it made, even after main moved on."""
        place.create([1])
        store = place.store()
        clone = place.beside("clone")
        first = store.shallow_clone(clone.uri)
        place.append(2)
        assert store.shallow_clone(clone.uri) == first
        assert len(store.tag_names()) == 1
        with pytest.raises(AlreadyExistsError, match="is a clone of main@1 already, not of main@2"):
            store.shallow_clone(clone.uri, "main@2")

    def test_another_dataset_is_not_cloned_over(self, place: Place) -> None:
        """Where a dataset stands nothing is made, and no pin is left."""
        place.create([1])
        other = place.beside("other").create([7])
        with pytest.raises(AlreadyExistsError, match="stands at"):
            place.store().shallow_clone(other.uri)
        assert other.values() == [7]
        assert place.store().tag_names() == []

    def test_a_clone_inside_its_source_is_refused(self, place: Place) -> None:
        """Datasets do not lie inside each other."""
        place.create([1])
        for target in (place.uri, f"{place.uri}/inner"):
            with pytest.raises(InvalidInputError, match="inside each other"):
                place.store().shallow_clone(target)

    def test_a_version_that_is_not_there_leaves_no_pin(self, place: Place) -> None:
        """A wrong revision is said before anything is written."""
        place.create([1])
        with pytest.raises(VersionNotFoundError):
            place.store().shallow_clone(place.beside("clone").uri, "main@9")
        assert place.store().tag_names() == []


class TestFiles:
    def test_every_file_of_a_version_is_listed_where_it_is(self, place: Place) -> None:
        """Data, deletion and index files, of the branch, its parent and main, all exist."""
        place.create(range(100))
        place.delete("n = 3")
        place.open().create_scalar_index("n", "BTREE")
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(200, 201)
        store.create_branch("b", "branch:a")
        place.branch("b").append(300)
        place.branch("b").delete("n = 200")
        files = store.files("branch:b")
        assert [file.kind for file in files].count("data") == 3
        assert {file.kind for file in files} == {"data", "deletion", "index"}
        storage = store._dataset.storage
        there = {f"{place.uri}/{entry.path}": entry.size for entry in storage.list("")}
        assert all(file.size in (None, there[file.uri]) for file in files)

    def test_base_paths_that_are_plain_folders_resolve(self, local_place: Place) -> None:
        """A base that is no dataset root holds its files directly."""
        folder = Path(local_place.uri + "-cold")
        lance.write_dataset(
            pa.table({"n": [1, 2]}),
            local_place.uri,
            initial_bases=[lance.DatasetBasePath(str(folder), name="cold", is_dataset_root=False)],
            target_bases=["cold"],
        )
        (file,) = local_place.store().files()
        assert Path(file.uri).parent == folder
        assert Path(file.uri).stat().st_size == file.size


class TestRelocate:
    def test_a_copy_stands_on_its_own(self, place: Place) -> None:
        """A relocated version reads the same after its source is gone."""
        place.create(range(50))
        place.delete("n < 3")
        place.open().create_scalar_index("n", "BTREE")
        place.append(99)
        target = place.beside("moved")
        steps: list[tuple[str, int, int]] = []
        version = place.store().relocate(
            target.uri, progress=lambda doing, done=0, total=0: steps.append((doing, done, total))
        )
        assert version.number == 4
        assert steps[-1][1] == steps[-1][2] > 0
        before = place.values()
        storage = place.store()._dataset.storage
        storage.delete_many(storage.list(""))
        assert target.values() == before
        assert target.open().to_table(filter="n = 7")["n"].to_pylist() == [7]
        assert target.store().check().clean
        target.append(100)
        assert target.values() == [*before, 100]

    def test_a_relocated_branch_is_a_dataset_with_refs(self, place: Place) -> None:
        """A branch copied to a place of its own is an ordinary main, to pylance as well."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(2)
        target = place.beside("moved")
        store.relocate(target.uri, "branch:a", bases={place.uri: target.uri})
        storage = store._dataset.storage
        storage.delete_many(storage.list(""))
        assert target.values() == [1, 2]
        assert target.open().branches.list() == {}
        target.open().tags.create("v1", 2)
        assert target.store().create_branch("b", "tag:v1").parent_version == 2
        assert target.branch("b").values() == [1, 2]

    def test_bases_that_are_not_named_stay_where_they_are(self, place: Place) -> None:
        """Without `bases` a copy of a branch goes on reading the original root."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(2)
        target = place.beside("moved")
        store.relocate(target.uri, "branch:a")
        assert target.values() == [1, 2]
        assert {file.uri.partition("/data/")[0] for file in target.store().files()} == {
            place.uri,
            target.uri,
        }

    def test_a_base_can_move_to_a_third_place(self, place: Place) -> None:
        """A base's files are copied to its new place, and the copy points there."""
        place.create([1])
        store = place.store()
        store.create_branch("a")
        place.branch("a").append(2)
        target, third = place.beside("moved"), place.beside("third")
        store.relocate(target.uri, "branch:a", bases={place.uri: third.uri})
        storage = store._dataset.storage
        storage.delete_many(storage.list(""))
        assert target.values() == [1, 2]
        assert third.uri in {base.path for base in target.store().manifest().bases.values()}

    def test_a_second_run_changes_nothing(self, place: Place) -> None:
        """Relocating again to the same place finds the work done."""
        place.create([1]).append(2)
        target = place.beside("moved")
        store = place.store()
        first = store.relocate(target.uri)
        assert store.relocate(target.uri) == first
        target.append(3)
        with pytest.raises(AlreadyExistsError):
            store.relocate(target.uri)
        assert target.values() == [1, 2, 3]

    def test_a_base_that_the_version_has_not_is_refused(self, place: Place) -> None:
        """A mistyped base is said, with those that there are."""
        place.create([1])
        place.store().create_branch("a")
        with pytest.raises(InvalidInputError, match=f"it has: {place.uri}"):
            place.store().relocate(
                place.beside("moved").uri, "branch:a", bases={"/nowhere": "/somewhere"}
            )

    def test_a_damaged_dataset_is_not_copied(self, place: Place) -> None:
        """If a file is missing nothing is copied and no manifest is written."""
        place.create([1]).append(2)
        storage = place.store()._dataset.storage
        storage.delete_many(storage.list("data/")[:1])
        target = place.beside("moved")
        with pytest.raises(StorageError, match="is missing"):
            place.store().relocate(target.uri)
        assert target.store()._dataset.storage.list("") == []

    @pytest.mark.s3
    def test_a_dataset_moves_from_disk_to_s3(self, local_place: Place, s3_place: Place) -> None:
        """Source and target may be of different kinds."""
        local_place.create([1]).append(2)
        RefStore.open(local_place.uri, s3_place.options).relocate(s3_place.uri)
        assert s3_place.values() == [1, 2]

    def test_a_v1_dataset_keeps_its_naming(self, place: Place) -> None:
        """The copy's manifest is named as the source's is."""
        place.create([1], enable_v2_manifest_paths=False).append(2)
        target = place.beside("moved")
        place.store().relocate(target.uri)
        assert [entry.path for entry in target.store()._dataset.storage.list("_versions/")] == [
            "_versions/2.manifest"
        ]
        assert target.values() == [1, 2]


def test_branches_live_in_memory_too(tmp_path: Path) -> None:
    """On `memory://` branches fork, fork again, clone and go, by bytes that pylance wrote."""
    source = Place(str(tmp_path / "seed")).create([1]).append(2)
    uri = f"memory://{uuid.uuid4().hex}"
    storage = RefStore.open(uri)._dataset.storage
    for path in Path(source.uri).rglob("*"):
        if path.is_file():
            storage.put_new(path.relative_to(source.uri).as_posix(), path.read_bytes())
    store = RefStore.open(uri)
    store.create_branch("a", "main@1")
    child = store.create_branch("a/b", "branch:a")
    assert child.source == store.resolve("branch:a@1")
    (file,) = store.files("branch:a/b")
    assert file.uri.startswith(f"{uri}/data/")
    assert store.create_branch("a", "main@1") == store.branch("a")
    store.shallow_clone(f"{uri}-clone", "branch:a")
    assert RefStore.open(f"{uri}-clone").files() == [file]
    assert store.check().clean
    assert store.delete_branch("a/b")
    with pytest.raises(RefusedError):
        store.delete_branch("a")
