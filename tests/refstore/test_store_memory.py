from __future__ import annotations

import uuid

import pytest
from fsspec.implementations.memory import MemoryFileSystem

from airflow_provider_lancerefs.refstore.storage import Storage, open_storage
from tests.refstore.store_contract import StorageContract


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage(f"memory://{uuid.uuid4().hex}")

    def put(self, storage: Storage, path: str, data: bytes) -> None:
        MemoryFileSystem().pipe_file(f"{storage.uri}/{path}", data)

    def get(self, storage: Storage, path: str) -> bytes | None:
        filesystem = MemoryFileSystem()
        address = f"{storage.uri}/{path}"
        data: bytes | None = filesystem.cat_file(address) if filesystem.exists(address) else None
        return data
