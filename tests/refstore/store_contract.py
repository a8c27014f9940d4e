"""What every storage backend must do; each subclass brings the backend and raw access to it."""

from __future__ import annotations

import io
import pickle
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import pytest

from airflow_provider_lancerefs.refstore import AlreadyExistsError, ConflictError
from airflow_provider_lancerefs.refstore.storage import Storage

CREATORS = 16
NAMES = ["plain", "a%2Fb.json", "%C3%A9.json", "deep/er/file", "with space"]


class StorageContract:
    """`storage` is the backend under test; `put` and `get` go around it."""

    @pytest.fixture
    def storage(self) -> Storage:
        raise NotImplementedError

    def put(self, storage: Storage, path: str, data: bytes) -> None:
        raise NotImplementedError

    def get(self, storage: Storage, path: str) -> bytes | None:
        raise NotImplementedError

    @pytest.mark.parametrize("name", NAMES)
    def test_a_new_object_is_there_for_everybody(self, storage: Storage, name: str) -> None:
        """What was created is what others read, under exactly that name."""
        blob = storage.put_new(f"x/{name}", b"one")
        assert self.get(storage, f"x/{name}") == b"one"
        assert storage.read(f"x/{name}") == blob

    def test_what_others_wrote_is_read(self, storage: Storage) -> None:
        """An object written around the storage is read and listed like any other."""
        self.put(storage, "x/foreign", b"theirs")
        blob = storage.read("x/foreign")
        assert blob is not None
        assert blob.data == b"theirs"
        assert [entry.path for entry in storage.list("x/")] == ["x/foreign"]

    def test_absence_is_a_value(self, storage: Storage) -> None:
        """Nothing there is None, or left out; never an error."""
        storage.put_new("x/one", b"1")
        assert storage.read("x/none") is None
        assert storage.list("nowhere/") == []
        assert list(storage.read_many(["x/none", "x/one"])) == ["x/one"]

    def test_creating_twice_fails_and_changes_nothing(self, storage: Storage) -> None:
        """A create over an existing object is refused, whoever wrote that."""
        self.put(storage, "x/one", b"first")
        with pytest.raises(AlreadyExistsError):
            storage.put_new("x/one", b"second")
        assert self.get(storage, "x/one") == b"first"

    def test_exactly_one_of_many_creators_wins(self, storage: Storage) -> None:
        """Of sixteen creators of a name one succeeds, and the object is what it wrote."""
        for _ in range(5):
            path = f"race/{uuid.uuid4().hex}"

            def create(number: int, path: str = path) -> bytes | None:
                data = f"creator {number}".encode()
                try:
                    return storage.put_new(path, data).data
                except AlreadyExistsError:
                    return None

            with ThreadPoolExecutor(CREATORS) as pool:
                won = [data for data in pool.map(create, range(CREATORS)) if data]
            assert [self.get(storage, path)] == won

    def test_exactly_one_of_many_replacers_wins(self, storage: Storage) -> None:
        """Of sixteen who replace what they all read, one succeeds."""
        token = storage.put_new("race/one", b"before").token

        def replace(number: int) -> bytes | None:
            try:
                return storage.replace(
                    "race/one", f"replacer {number}".encode(), expected=token
                ).data
            except ConflictError:
                return None

        with ThreadPoolExecutor(CREATORS) as pool:
            won = [data for data in pool.map(replace, range(CREATORS)) if data]
        assert [self.get(storage, "race/one")] == won

    def test_a_replace_returns_the_next_token(self, storage: Storage) -> None:
        """Replaces can be chained, each with the token of the one before."""
        blob = storage.put_new("x/one", b"1")
        for number in (b"2", b"3", b"4"):
            blob = storage.replace("x/one", number, expected=blob.token)
        assert storage.read("x/one") == blob
        assert self.get(storage, "x/one") == b"4"

    def test_a_stale_replace_is_refused(self, storage: Storage) -> None:
        """A replace of what has changed since it was read changes nothing."""
        stale = storage.put_new("x/one", b"1").token
        self.put(storage, "x/one", b"theirs")
        with pytest.raises(ConflictError):
            storage.replace("x/one", b"ours", expected=stale)
        assert self.get(storage, "x/one") == b"theirs"

    def test_a_replace_of_what_is_gone_is_refused(self, storage: Storage) -> None:
        """A replace never creates."""
        blob = storage.put_new("x/one", b"1")
        storage.remove("x/one", expected=blob.token)
        with pytest.raises(ConflictError):
            storage.replace("x/one", b"2", expected=blob.token)
        assert self.get(storage, "x/one") is None

    def test_a_removal_takes_what_was_read_and_nothing_else(self, storage: Storage) -> None:
        """A removal is conditional, and one of what is gone is no error."""
        blob = storage.put_new("x/one", b"1")
        self.put(storage, "x/one", b"theirs")
        with pytest.raises(ConflictError):
            storage.remove("x/one", expected=blob.token)
        assert self.get(storage, "x/one") == b"theirs"
        now = storage.read("x/one")
        assert now is not None
        storage.remove("x/one", expected=now.token)
        assert self.get(storage, "x/one") is None
        storage.remove("x/one", expected=now.token)

    def test_a_listing_sees_the_last_write(self, storage: Storage) -> None:
        """Created, replaced and removed objects show at once, in the order of their paths."""
        blobs = {path: storage.put_new(path, b"1") for path in ("l/c", "l/a", "l/b/d", "lx")}
        assert [entry.path for entry in storage.list("l/")] == ["l/a", "l/b/d", "l/c"]
        storage.replace("l/c", b"longer", expected=blobs["l/c"].token)
        storage.remove("l/a", expected=blobs["l/a"].token)
        assert [(entry.path, entry.size) for entry in storage.list("l/")] == [
            ("l/b/d", 1),
            ("l/c", 6),
        ]

    def test_a_listing_starts_with_any_prefix(self, storage: Storage) -> None:
        """A prefix need not end at a folder, and a limit cuts the listing short."""
        for path in ("p/ab", "p/abc", "p/abz/x", "p/b"):
            storage.put_new(path, b"")
        assert [entry.path for entry in storage.list("p/ab")] == ["p/ab", "p/abc", "p/abz/x"]
        assert [entry.path for entry in storage.list("p/", limit=2)] == ["p/ab", "p/abc"]
        assert [entry.path for entry in storage.list("p/abc", limit=1)] == ["p/abc"]

    def test_a_listing_says_when(self, storage: Storage) -> None:
        """An object's time is that of its last write, in UTC."""
        storage.put_new("t/one", b"")
        (entry,) = storage.list("t/")
        assert entry.modified.utcoffset() == timedelta(0)
        assert abs(datetime.now(UTC) - entry.modified) < timedelta(minutes=1)

    def test_deleting_many_leaves_what_has_changed(self, storage: Storage) -> None:
        """What was replaced since it was listed stays; what is gone already is no error."""
        for path in ("d/a", "d/b", "d/c"):
            storage.put_new(path, b"1")
        listed = storage.list("d/")
        self.put(storage, "d/b", b"new life")
        storage.delete_many(listed[:1])
        storage.delete_many(listed)
        assert [entry.path for entry in storage.list("d/")] == ["d/b"]

    def test_deleting_nothing_is_fine(self, storage: Storage) -> None:
        """No entries, no request, no error."""
        storage.delete_many([])

    def test_many_objects_are_listed_and_deleted(self, storage: Storage) -> None:
        """More objects than a page holds are listed and deleted all the same."""
        with ThreadPoolExecutor(16) as pool:
            list(pool.map(lambda n: self.put(storage, f"m/{n:05}", b""), range(1100)))
        listed = storage.list("m/")
        assert [entry.path for entry in listed] == [f"m/{n:05}" for n in range(1100)]
        assert len(storage.list("m/", limit=1050)) == 1050
        assert len(storage.read_many(entry.path for entry in listed)) == 1100
        storage.delete_many(listed)
        assert storage.list("m/") == []

    def test_streams_carry_whole_objects(self, storage: Storage) -> None:
        """What is uploaded is what is read, and a copy is the same."""
        data = bytes(range(256)) * 5000
        storage.upload("s/one", io.BytesIO(data))
        assert self.get(storage, "s/one") == data
        with storage.open_input("s/one") as stream:
            assert stream.read() == data
        storage.copy("s/one", storage, "s/t%2Fwo")
        assert self.get(storage, "s/t%2Fwo") == data

    def test_it_can_be_sent_to_another_process(self, storage: Storage) -> None:
        """A storage survives pickling, and says where it is without saying how to get in."""
        storage.put_new("x/one", b"1")
        again: Storage = pickle.loads(pickle.dumps(storage))
        assert again.uri == storage.uri
        assert again.read("x/one") == storage.read("x/one")
        assert storage.uri in repr(again)
