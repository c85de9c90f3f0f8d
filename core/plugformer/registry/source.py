"""The source code of what manifests name: what it says, and hashes of it. It is read, and not imported."""

import ast
import hashlib
import inspect
import json
import re
import warnings
from collections.abc import Iterable, Iterator
from contextlib import suppress
from functools import lru_cache
from importlib.machinery import PathFinder
from importlib.util import find_spec
from itertools import pairwise, product
from pathlib import Path
from typing import TYPE_CHECKING, Any

import plugformer

if TYPE_CHECKING:
    from plugformer.registry.manifest import Entry

BLOCKS = "plugformer_blocks"
"""The package with building blocks of components."""

_DESCRIPTION = re.compile(r"""^description:\s*["']?(.*?)["']?\s*$""", re.MULTILINE)


def places(module: str) -> list[Path]:
    """Returns the folders of a package, or the file of a module."""
    found: list[str] | None = None
    for name in module.split("."):
        # By its last part alone: of a dotted name it would look for the parent among what is imported.
        spec = find_spec(name) if found is None else PathFinder.find_spec(name, found)
        if spec is None:
            return []
        found = list(spec.submodule_search_locations or [spec.origin or ""])
    return list(map(Path, found or []))


def module_file(module: str) -> Path | None:
    """Returns the file of a module, or that of a package's own code."""
    files = (file for place in places(module) for file in (place, place / "__init__.py"))
    return next((file for file in files if file.is_file()), None)


def docstring(target: str) -> str:
    """Returns the docstring of a `module` or of a member, `module:name`; "" if there is none."""
    module, _, name = target.partition(":")
    try:
        file = module_file(module)
        found = {} if file is None else _docstrings(file, file.stat().st_mtime_ns)
    except (OSError, ValueError, SyntaxError):
        return ""
    return found.get(name, "")


def packaged_file(target: str) -> Path | None:
    """Returns a file of a package, `package:path/in/it.yaml`; None if there is none."""
    package, _, path = target.partition(":")
    return next((file for place in places(package) if (file := place / path).is_file()), None)


def description(target: str) -> str:
    """Returns the description in a task file, `package:path/in/it.yaml`; "" if there is none."""
    file = packaged_file(target)
    found = None if file is None else _DESCRIPTION.search(file.read_text(encoding="utf-8", errors="replace"))
    return found[1] if found else ""


@lru_cache
def _docstrings(file: Path, changed: int) -> dict[str, str]:  # noqa: ARG001 (another time, another content)
    """Returns the docstrings of a module, under an empty name, and of its members."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the import itself warns
        tree = ast.parse(file.read_bytes())
    return {"": ast.get_docstring(tree) or "", **dict(_members(tree))}


def _members(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            yield node.name, ast.get_docstring(node) or ""
    for node, after in pairwise(tree.body):
        if isinstance(node, ast.Assign) and isinstance(after, ast.Expr):
            text = after.value.value if isinstance(after.value, ast.Constant) else None
            names = [target.id for target in node.targets if isinstance(target, ast.Name)]
            yield from ((name, text) for name in names if isinstance(text, str))


def component_lock(entry: "Entry") -> dict[str, Any]:
    """Returns a component's distribution, its version, and a hash of its source.

    An installed or local one that is not built in also has a hash of each of its `files`.
    """
    lock = {"distribution": entry.distribution, "version": entry.version, "source": source_hash(entry)}
    has_files = entry.component is None and entry.distribution != plugformer.__name__
    return {**lock, "files": _file_hashes(entry)} if has_files else lock


def source_hash(entry: "Entry") -> str:
    """Returns a SHA-256 of a component's own file, and of the modules of its distribution that it imports.

    Of a built-in component only the file counts; the version covers the others. A local component's modules
    are those in the folder of its manifest. Of a session's class its own lines count. A missing file has the
    hash of nothing.
    """
    if entry.component is not None:
        return hashlib.sha256(_source(entry.component).encode()).hexdigest()
    hashes = _file_hashes(entry)
    text = json.dumps(hashes, sort_keys=True) if len(hashes) > 1 else ""
    return hashlib.sha256(text.encode()).hexdigest() if text else next(iter(hashes.values()), _NOTHING)


_NOTHING = hashlib.sha256().hexdigest()


def _source(component: type) -> str:
    """Returns the source code of a class, or of its methods, which is all that Python finds in a notebook."""
    methods = [member for member in vars(component).values() if inspect.isfunction(member)]
    for parts in ([component], methods):
        with suppress(OSError, TypeError):
            return "".join(map(inspect.getsource, parts))
    return ""


def _file_hashes(entry: "Entry") -> dict[str, str]:
    """Returns a SHA-256 of a component's own file and of what it imports, by path in folder or package."""
    module = entry.target.partition(":")[0]
    own = [file for file in [module_file(module)] if file is not None]
    if entry.distribution == plugformer.__name__ or not (own or entry.file):
        files = {file.name: file for file in own}
    else:
        within = [Path(entry.file).parent] if entry.file else places(module.partition(".")[0])
        roots = {root: None for place in within for root in (place, place.parent)}
        waiting = [*own, *(file for root in roots for file in _module_files(root, module))]
        files = {}
        while waiting:
            file = waiting.pop()
            place = next((place for place in within if file.is_relative_to(place)), None)
            name = file.name if place in (None, file) else file.relative_to(place or "").as_posix()
            if name not in files and (place or file in own):
                files[name] = file
                waiting += _imports(file, roots)
    return {name: hashlib.sha256(files[name].read_bytes()).hexdigest() for name in sorted(files)}


def _imports(file: Path, roots: Iterable[Path]) -> Iterator[Path]:
    """Yields the files below some folders that the import statements of a file may name."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the import itself warns
            nodes = list(ast.walk(ast.parse(file.read_bytes())))
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            names, places = [alias.name for alias in node.names], [*roots]
        elif isinstance(node, ast.ImportFrom):
            names = [".".join(filter(None, (node.module, alias.name))) for alias in node.names]
            places = list(file.parents[node.level - 1 : node.level]) if node.level else [*roots]
        else:
            continue
        for place, name in product(places, names):
            yield from _module_files(place, name)


def _module_files(folder: Path, module: str) -> Iterator[Path]:
    """Yields the file of a module and those of the packages that it lies in."""
    for name in module.split("."):
        yield from (file for file in (folder / f"{name}.py", folder / name / "__init__.py") if file.is_file())
        folder /= name


def code_hash(entries: Iterable["Entry"], *packages: str) -> str:
    """Returns a SHA-256 of all Python files in the packages of components, and in further packages.

    It decides whether a result is computed again, not whether a run may be resumed.
    """
    entries = list(entries)
    modules = (entry.target.partition(":")[0] for entry in entries if not entry.file)
    names = {parent for module in modules if (parent := module.rpartition(".")[0])}
    folders = [folder for name in sorted({*names, *packages}) for folder in places(name)]
    folders += sorted({Path(entry.file).parent for entry in entries if entry.file})
    digest = hashlib.sha256()
    while folders:  # and the packages in them
        for member in sorted(folders.pop(0).glob("*")):
            if member.suffix == ".py" and member.is_file():
                source = member.read_bytes()
                digest.update(f"{member.name}\0{len(source)}\0".encode() + source)
            elif (member / "__init__.py").is_file():
                folders.append(member)
    return digest.hexdigest()
