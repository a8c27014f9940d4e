"""Errors: the tree that handlers are written against, and what is promised of each."""

from __future__ import annotations

import ast
import pickle
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_lancerefs import refstore
from airflow_provider_lancerefs.refstore import errors, models
from airflow_provider_lancerefs.refstore.errors import ErrorKind, LanceRefsError, RefusedError

PACKAGE = Path(refstore.__file__).parent

TREE = {
    "LanceRefsError": ("Exception", "storage"),
    "NotFoundError": ("LanceRefsError LookupError", "not-found"),
    "DatasetNotFoundError": ("NotFoundError", "dataset-not-found"),
    "RefNotFoundError": ("NotFoundError", "ref-not-found"),
    "VersionNotFoundError": ("NotFoundError", "version-not-found"),
    "AlreadyExistsError": ("LanceRefsError", "already-exists"),
    "ConflictError": ("LanceRefsError", "conflict"),
    "RefusedError": ("LanceRefsError", "refused"),
    "PublishRefusedError": ("RefusedError", "publish-refused"),
    "OutcomeUnknownError": ("LanceRefsError", "outcome-unknown"),
    "InvalidInputError": ("LanceRefsError ValueError", "invalid-input"),
    "InvalidRefNameError": ("InvalidInputError", "invalid-ref-name"),
    "FormatError": ("LanceRefsError", "format"),
    "UnsupportedStoreError": ("LanceRefsError", "unsupported-store"),
    "StorageError": ("LanceRefsError", "storage"),
}
# Programs compare against these: a value may be added at the end, and none may change or go.
KINDS = [
    "not-found",
    "dataset-not-found",
    "ref-not-found",
    "version-not-found",
    "already-exists",
    "conflict",
    "refused",
    "protected",
    "in-use",
    "outcome-unknown",
    "invalid-input",
    "invalid-ref-name",
    "format",
    "unsupported-feature",
    "unsupported-store",
    "storage",
    "access-denied",
    "publish-refused",
]


def family(root: type[LanceRefsError] = LanceRefsError) -> Iterator[type[LanceRefsError]]:
    """The root and every subclass that stands beside it; other tests may have loaded more."""
    yield root
    for child in root.__subclasses__():
        if child.__module__ == errors.__name__:
            yield from family(child)


CLASSES = sorted(set(family()), key=lambda one: one.__name__)


def test_the_tree_is_what_handlers_know() -> None:
    """Each error has the parents, and so the handlers, that are promised, and its own kind."""
    found = {
        one.__name__: (" ".join(base.__name__ for base in one.__bases__), one.default_kind.value)
        for one in CLASSES
    }
    assert found == TREE


def test_kinds_are_only_ever_added() -> None:
    """The codes that programs compare against are frozen."""
    assert [kind.value for kind in ErrorKind] == KINDS
    assert all(ErrorKind(value) == value for value in KINDS)


def test_the_tree_in_the_docstring_is_the_tree() -> None:
    """What the module's docstring draws is how the classes stand to each other."""
    drawn: dict[str, int] = {}
    for line in (errors.__doc__ or "").splitlines():
        name = next((word for word in line.split() if word.endswith("Error")), None)
        if name is not None and line.startswith("    "):
            drawn[name] = (line.index(name) - 4) // 3
    depths = {one.__name__: len(one.__mro__) for one in CLASSES}
    assert set(drawn) == set(depths)
    for name, depth in drawn.items():
        ancestors = [
            base for base in getattr(errors, name).__mro__ if issubclass(base, LanceRefsError)
        ]
        assert depth == len(ancestors) - 1


@pytest.mark.parametrize("error", CLASSES, ids=lambda one: one.__name__)
def test_errors_cross_processes(error: type[LanceRefsError]) -> None:
    """An error comes out of a pickle with its sentence, its kind and all its attributes."""
    for kept in (
        error("It broke."),
        error("It broke.", kind=ErrorKind.PROTECTED, ref="a/b"),
    ):
        if isinstance(kept, RefusedError):
            kept.blockers = ("tag 'v1'", "branch 'c'")
        copy = pickle.loads(pickle.dumps(kept))
        assert type(copy) is error
        assert str(copy) == "It broke."
        assert copy.args == kept.args
        assert vars(copy) == vars(kept)


@pytest.mark.parametrize("error", CLASSES, ids=lambda one: one.__name__)
def test_errors_without_more_have_their_own_kind(error: type[LanceRefsError]) -> None:
    """An error needs no more than a sentence; its kind is then that of its class."""
    made = error("It broke.")
    assert (made.kind, made.ref) == (error.default_kind, None)
    assert str(made) == "It broke."
    assert isinstance(made.kind, ErrorKind)


def test_refusals_name_what_stands_in_the_way() -> None:
    """A refusal carries the names of the refs that stand in the way, and none by default."""
    assert RefusedError("No.").blockers == ()
    refused = RefusedError("No.", kind=ErrorKind.IN_USE, ref="a", blockers=("tag 'v1'",))
    assert pickle.loads(pickle.dumps(refused)).blockers == ("tag 'v1'",)


@pytest.mark.parametrize("error", CLASSES, ids=lambda one: one.__name__)
def test_each_error_says_what_it_means(error: type[LanceRefsError]) -> None:
    """Every error class has a docstring that ends as a sentence does."""
    assert (error.__doc__ or "").splitlines()[0].endswith(".")


def test_everything_public_is_exported() -> None:
    """Every error, and every model a caller is handed, is exported by name from the library."""
    names = {one.__name__ for one in CLASSES} | {"ErrorKind"}
    assert sorted(names) == sorted(errors.__all__)
    public_models = {
        name
        for name, value in vars(models).items()
        if isinstance(value, type) and value.__module__ == models.__name__
    }
    assert names | public_models <= set(refstore.__all__)


def test_all_is_sorted_and_true() -> None:
    """`__all__` is sorted, without duplicates, and each name of it is there."""
    for module in (errors, refstore):
        assert module.__all__ == sorted(set(module.__all__))
        assert all(hasattr(module, name) for name in module.__all__)


def test_what_public_methods_hand_out_is_exported() -> None:
    """Whatever type a public method of the store names in its signature can be imported by name."""
    tree = ast.parse((PACKAGE / "store.py").read_text())
    [store] = [node for node in tree.body if isinstance(node, ast.ClassDef)]
    imported = {
        alias.name: node.module or ""
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(PACKAGE.parent.name)
        for alias in node.names
    }
    named = {
        name.id
        for method in store.body
        if isinstance(method, ast.FunctionDef) and not method.name.startswith("_")
        for annotation in (
            method.returns,
            *(argument.annotation for argument in method.args.args + method.args.kwonlyargs),
        )
        if annotation is not None
        for name in ast.walk(annotation)
        if isinstance(name, ast.Name)
    }
    assert {"Branch", "Report"} <= named
    assert {name for name in named if name in imported} - set(refstore.__all__) == set()


def raised_messages() -> Iterator[tuple[str, ast.expr]]:
    """Each message that the package builds an error of its own with, and where."""
    names = {one.__name__ for one in CLASSES}
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.args:
                if node.func.id in names:
                    yield f"{path.name}:{node.lineno}", node.args[0]


def literal(node: ast.expr) -> str:
    """The message with a placeholder for whatever is filled in when it is raised."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(
            str(part.value) if isinstance(part, ast.Constant) else "X" for part in node.values
        )
    raise AssertionError(f"line {node.lineno}: a message is written where it is raised")


def test_messages_are_one_sentence() -> None:
    """Each message is one sentence on one line: it starts as one and ends in a full stop."""
    found = dict(raised_messages())
    assert len(found) > 30
    for where, node in found.items():
        message = literal(node)
        assert message.endswith("."), where
        assert "\n" not in message, where
        assert ". " not in message, where
        assert message[0].isupper() or message.startswith(("'", "pylance ")), where


def test_catching_the_standard_errors_works() -> None:
    """Not found is a LookupError, bad input a ValueError, for callers that know no more."""
    with pytest.raises(LookupError, match="There is no branch 'x'"):
        raise errors.RefNotFoundError("There is no branch 'x'.")
    with pytest.raises(ValueError, match="not a branch name"):
        refstore.check_branch_name("a b")
