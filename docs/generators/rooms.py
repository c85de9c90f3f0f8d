"""The rooms of the code, read from its imports: packages of components and commands, and the core's own."""

import ast
from collections.abc import Iterator
from graphlib import TopologicalSorter
from html import escape
from pathlib import Path

ROW, WIDTH, ARCS = 24, 760, 150  # pixels: height of a room, width of the picture, and of that its arcs
CORE, FEATURE = ("#e8eaf6", "#3f51b5"), ("#fff3e0", "#ef6c00")


class Room:
    """A package, or a package or module of the core: its files, its purpose and what it imports."""

    def __init__(self, path: Path, name: str) -> None:
        self.name = name
        first = path / "__init__.py" if path.is_dir() else path
        self.purpose = (ast.get_docstring(ast.parse(first.read_text(encoding="utf-8"))) or "").partition(
            "\n"
        )[0]
        files = (
            [path]
            if path.is_file()
            else [each for each in path.rglob("*.py") if "templates" not in each.parts]
        )
        trees = [ast.parse(file.read_text(encoding="utf-8")) for file in files]
        self.imports = {module for tree in trees for module in _imported(tree)}


def _imported(tree: ast.Module) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (each.name for each in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            yield from (f"{node.module}.{each.name}" for each in node.names)


def rooms(root: Path) -> list[tuple[Room, set[str]]]:
    """Returns the rooms with the rooms that each imports, each after all that import it.

    Raises:
        CycleError: Rooms import each other in a circle.
    """
    core = root / "core" / "plugformer"
    found = [Room(path, f"plugformer.{path.stem}") for path in core.iterdir() if _is_room(path)]
    found += [
        Room(path, path.name)
        for folder in ("plugins", "tasks")
        for path in (root / folder).iterdir()
        if _is_room(path)
    ]
    named = {room.name: room for room in found}
    imports = {
        room.name: {
            other
            for other in named
            if other != room.name and any(f"{module}.".startswith(f"{other}.") for module in room.imports)
        }
        for room in sorted(found, key=lambda room: room.name)
    }
    order = [*TopologicalSorter({name: sorted(others) for name, others in imports.items()}).static_order()]
    return [(named[name], imports[name]) for name in reversed(order)]


def _is_room(path: Path) -> bool:
    module = path.suffix == ".py" and not path.name.startswith("__")
    return module or (path / "__init__.py").exists()


def room_table(root: Path) -> str:
    """Returns a table of the rooms, from the top of the house to its ground."""
    rows = [f"| `{room.name}` | {room.purpose} |" for room, _ in rooms(root)]
    return "\n".join(["| room | what is in it |", "| --- | --- |", *rows])


def room_drawing(root: Path) -> str:
    """Returns the rooms as an SVG: one below the other, with arcs from each to those that it imports.

    An arc is left out if others lead to the same room.
    """
    house = rooms(root)
    reached: dict[str, set[str]] = {}
    direct: dict[str, set[str]] = {}
    for room, imports in reversed(house):
        direct[room.name] = imports - set().union(*(reached[other] for other in imports))
        reached[room.name] = imports | set().union(*(reached[other] for other in imports))
    place = {room.name: (number + 0.5) * ROW for number, (room, _) in enumerate(house)}
    height, edge = ROW * len(house), WIDTH - ARCS
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" '
        f'height="{height}" font-family="sans-serif" font-size="12" fill="#1a1a1a" role="img">',
        f'<title>The rooms of the code</title>\n<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
    ]
    for room, _ in house:
        fill, stroke = CORE if room.name.startswith("plugformer.") else FEATURE
        top = place[room.name] - ROW / 2 + 2
        parts.append(
            f'<rect x="4" y="{top}" width="{edge - 4}" height="{ROW - 4}" rx="4" fill="{fill}" '
            f'stroke="{stroke}"/>'
            f'<text x="12" y="{top + 14}" font-weight="bold">{room.name}</text>'
            f'<text x="190" y="{top + 14}">{escape(_short(room.purpose.replace("`", "")))}</text>'
        )
    for name, others in direct.items():
        for other in sorted(others):
            start, end = place[name] + 4, place[other] - 4
            bend = edge + 20 + 220 * (end - start) / height
            parts.append(
                f'<path d="M{edge} {start} C{bend} {start} {bend} {end} {edge} {end}" fill="none" '
                f'stroke="#78909c"/>'
                f'<circle cx="{edge}" cy="{end}" r="2" fill="#78909c"/>'
            )
    return "\n".join([*parts, "</svg>\n"])


def _short(purpose: str, most: int = 66) -> str:
    return purpose if len(purpose) <= most else purpose[: most - 1].rsplit(" ", 1)[0] + " …"
