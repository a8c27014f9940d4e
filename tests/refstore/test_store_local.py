from __future__ import annotations

import io
from pathlib import Path

import pytest

from airflow_provider_lancerefs.refstore import layout
from airflow_provider_lancerefs.refstore.errors import StorageError
from airflow_provider_lancerefs.refstore.storage import Storage
from airflow_provider_lancerefs.refstore.storage.local import LocalStorage
from tests.refstore.store_contract import StorageContract


class TestLocalStorage(StorageContract):
    @pytest.fixture
    def storage(self, tmp_path: Path) -> Storage:
        return LocalStorage(str(tmp_path / "root"))

    def put(self, storage: Storage, path: str, data: bytes) -> None:
        target = Path(storage.uri, path)
        target.parent.mkdir(parents=True, exist_ok=True)
        scratch = target.with_name(target.name + ".scratch")
        scratch.write_bytes(data)
        scratch.rename(target)

    def get(self, storage: Storage, path: str) -> bytes | None:
        target = Path(storage.uri, path)
        return target.read_bytes() if target.exists() else None

    def test_a_sweep_takes_an_upload_that_it_meets(self, storage: Storage) -> None:
        """What is not yet in place looks like a dead writer's: the live one hears of it."""
        storage.put_new("x", b"")

        class Swept(io.BytesIO):
            def read(self, size: int | None = -1) -> bytes:
                for scratch in Path(storage.uri).rglob(f"{layout.SCRATCH_PREFIX}*"):
                    scratch.unlink()
                return super().read(size)

        with pytest.raises(StorageError, match=r"y was removed while it was being written"):
            storage.upload("y", Swept(b"data"))
        assert [one.path for one in storage.list("")] == ["x"]

    def test_emptied_branch_folders_go(self, storage: Storage) -> None:
        """Deleting a branch's last file leaves no folder of it behind, and no other goes."""
        storage.put_new("tree/a/b/_versions/1.manifest", b"")
        storage.put_new("tree/a/data/x.lance", b"")
        storage.delete_many(storage.list("tree/a/b/"))
        assert sorted(path.name for path in Path(storage.uri, "tree/a").iterdir()) == ["data"]
        storage.delete_many(storage.list("tree/"))
        assert list(Path(storage.uri, "tree").iterdir()) == []
