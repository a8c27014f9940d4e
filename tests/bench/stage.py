"""A dataset on the S3 server whose refs grow to thousands, made around the proxy."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import lance
from pyarrow.fs import FileType, S3FileSystem

from airflow_provider_lancerefs.refstore import RefStore
from tests.bench.calls import SOURCE, Site
from tests.services.proxy import S3Proxy
from tests.services.seaweed import BUCKET, S3Server
from tests.tables import Place

SETTLED = 3.0
_PARALLEL = 16
_TEMPLATE = "branch-xxxxx"
_TAG, _BRANCH = "tag-{:05d}", "branch-{:05d}"


def files_of(server: S3Server) -> S3FileSystem:
    """The server's files, neither counted nor delayed."""
    return S3FileSystem(
        access_key=server.access_key,
        secret_key=server.secret_key,
        endpoint_override=f"127.0.0.1:{server.port}",
        scheme="http",
        region="us-east-1",
        allow_delayed_open=True,  # one request for a small file
    )


class Stage:
    """One dataset with two versions on main. Whatever is done here is neither counted nor delayed.

    `site` is what the measured calls are given. The refs in bulk are copies of one that pylance
    made, under other names: both libraries read them.
    """

    def __init__(self, server: S3Server, proxy: S3Proxy, name: str) -> None:
        uri = f"s3://{BUCKET}/{name}"
        self.site = Site(uri, server, proxy.port)
        self._near = Place(uri, server.storage_options())
        self._near.create().append(4)
        self._folder = f"{BUCKET}/{name}"
        self._files = files_of(server)
        self.tags = 0
        self.branches = 0
        self._grown = time.monotonic()

    @property
    def store(self) -> RefStore:
        return self._near.store()

    @property
    def dataset(self) -> lance.LanceDataset:
        return self._near.open()

    def grow(self, *, tags: int = 0, branches: int = 0) -> None:
        """Add refs until there are so many."""
        if tags > self.tags:
            self._put(self._more_tags(tags))
            self.tags = tags
        if branches > self.branches:
            self._put(self._more_branches(branches))
            self.branches = branches
            self._check_branch(_BRANCH.format(branches - 1))
        self._grown = time.monotonic()

    def settle(self) -> None:
        """Let the refs be older than what is made next, as those that were there long before are.

        The store's times are whole seconds, and a delete reads the refs that are younger than its
        branch by a margin of two more.
        """
        time.sleep(max(0.0, self._grown + SETTLED - time.monotonic()))

    def create_tag(self, name: str) -> None:
        self.store.create_tag(name, "main@1")

    def drop_tag(self, name: str) -> None:
        self.store.delete_tag(name)

    def create_source(self) -> None:
        """A branch whose head is a commit of its own, later than its ref."""
        self.store.create_branch(SOURCE)
        self._grown = time.monotonic()
        self.settle()
        self._near.branch(SOURCE).append(5)

    def drop_source(self) -> None:
        self.store.delete_branch(SOURCE)

    def create_fork(self, _: str) -> None:
        """A branch whose head is its fork, made in the same moment as its ref."""
        self.store.create_branch(SOURCE)

    def drop_tag_and_fork(self, name: str) -> None:
        self.store.delete_tag(name)
        self.store.delete_branch(SOURCE)

    def drop_branch(self, name: str) -> None:
        self.store.delete_branch(name)

    def create_old_branch(self, name: str) -> None:
        """A branch with a commit of its own, younger than every other ref."""
        self.settle()
        self.store.create_branch(name)
        self._near.branch(name).append(5)

    def drop_clone(self, _: str) -> None:
        """Remove the pins that our clones leave, and forget the clones."""
        for tag in self.store.tag_names():
            if tag.startswith("clone-"):
                self.store.delete_tag(tag, force=True)

    def forget_proof(self, _: str) -> None:
        """Make the dataset one to which nobody has ever written a ref."""
        probe = f"{self._folder}/_refs/lancerefs.probe"
        if self._files.get_file_info(probe).type is FileType.File:
            self._files.delete_file(probe)

    def _more_tags(self, count: int) -> dict[str, bytes]:
        self.dataset.tags.create(_TEMPLATE)
        path = f"_refs/tags/{_TEMPLATE}.json"
        body = self._read(path)
        self.dataset.tags.delete(_TEMPLATE)
        return {
            path.replace(_TEMPLATE, _TAG.format(number)): body for number in range(self.tags, count)
        }

    def _more_branches(self, count: int) -> dict[str, bytes]:
        """Ref file and first manifest of each; the names are as long as the template's."""
        head = self.dataset.create_branch(_TEMPLATE).version
        ref = f"_refs/branches/{_TEMPLATE}.json"
        manifest = f"tree/{_TEMPLATE}/_versions/{2**64 - 1 - head:020d}.manifest"
        fields, body = json.loads(self._read(ref)), self._read(manifest)
        self.store.delete_branch(_TEMPLATE)
        files = {}
        for number in range(self.branches, count):
            name = _BRANCH.format(number)
            fields["identifier"] = {"version_mapping": [[head, uuid.uuid4().hex]]}
            files[ref.replace(_TEMPLATE, name)] = json.dumps(fields, indent=2).encode()
            files[manifest.replace(_TEMPLATE, name)] = body.replace(
                _TEMPLATE.encode(), name.encode()
            )
        return files

    def _check_branch(self, name: str) -> None:
        theirs = self.dataset.checkout_version((name, None))
        ours = self.store.resolve(f"branch:{name}")
        if (theirs.version, theirs.count_rows()) != (ours.number, 4):
            raise RuntimeError(f"The copied branch {name} does not read as it should.")

    def _read(self, path: str) -> bytes:
        with self._files.open_input_stream(f"{self._folder}/{path}") as stream:
            return bytes(stream.read())

    def _put(self, files: Mapping[str, bytes]) -> None:
        def put(path: str) -> None:
            with self._files.open_output_stream(f"{self._folder}/{path}") as stream:
                stream.write(files[path])

        with ThreadPoolExecutor(_PARALLEL) as pool:
            for _ in pool.map(put, files):
                pass
