"""Reads Python source without running it: modules, imports, uses of the environment."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ENVIRONMENT = frozenset({"environ", "environb", "getenv", "getenvb", "putenv", "unsetenv"})


@dataclass(frozen=True)
class Import:
    """One import statement's wish for one module, wherever in the file it stands."""

    importer: str
    line: int
    target: str
    relative: bool = False

    def __str__(self) -> str:
        return f"{self.importer}:{self.line} imports {self.target}"


class Package:
    """A package folder as it is on disk: every module below it, by its full name."""

    def __init__(self, folder: Path) -> None:
        self.name = folder.name
        self.modules = {
            _module_name(folder, path): ast.parse(path.read_bytes(), filename=str(path))
            for path in sorted(folder.rglob("*.py"))
            if not path.name.endswith("_pb2.py")
        }
        self.imports = [
            one for name, tree in self.modules.items() for one in self._imports(name, tree)
        ]

    @property
    def own_imports(self) -> list[Import]:
        """The imports whose target lies in this package."""
        return [one for one in self.imports if is_within(one.target, self.name)]

    def environment_reads(self) -> list[tuple[str, int]]:
        """Module and line of each use of the process's environment."""
        return [
            (name, line) for name, tree in self.modules.items() for line in _environment_lines(tree)
        ]

    def _imports(self, importer: str, tree: ast.Module) -> Iterator[Import]:
        for node in ast.walk(tree):
            match node:
                case ast.Import(names=names):
                    for alias in names:
                        yield Import(importer, node.lineno, alias.name)
                case ast.ImportFrom(module=module, names=names, level=level):
                    for alias in names:
                        target = self._meant(module or "", alias.name)
                        yield Import(importer, node.lineno, target, relative=level > 0)
                case ast.Call(func=func, args=[ast.Constant(value=str(target)), *_]):
                    if ast.unparse(func).rpartition(".")[2] in {"import_module", "__import__"}:
                        yield Import(importer, node.lineno, target)

    def _meant(self, module: str, name: str) -> str:
        """`from module import name` means a submodule where there is one, else the module."""
        submodule = f"{module}.{name}"
        return submodule if submodule in self.modules else module


def is_within(module: str, ancestor: str) -> bool:
    return module == ancestor or module.startswith(ancestor + ".")


def _module_name(folder: Path, path: Path) -> str:
    parts = path.relative_to(folder.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def _environment_lines(tree: ast.Module) -> Iterator[int]:
    names_of_os = {
        alias.asname or alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.Import)
        for alias in node.names
        if alias.name == "os"
    }
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute):
                if name in names_of_os and attribute in ENVIRONMENT:
                    yield node.lineno
            case ast.ImportFrom(module="os", names=names):
                if any(alias.name in ENVIRONMENT for alias in names):
                    yield node.lineno
