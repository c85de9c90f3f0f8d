"""Markdown from Python: tables, signatures, and docstrings in Google style."""

import ast
import inspect
import re
import textwrap
from collections.abc import Iterable, Iterator, Sequence

_SECTION = re.compile(r"^(Args|Attributes|Raises|Returns|Example):$")
_ENTRY = re.compile(r"^( {4})?(\w[\w.]*)( \([^)]*\))?: (.*)$")
_LINE = 96


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Returns a table; vertical bars in cells are escaped."""
    lines = [header, ["---"] * len(header), *rows]
    escaped = ([cell.replace("|", r"\|") for cell in line] for line in lines)
    return "\n".join(f"| {' | '.join(cells)} |" for cells in escaped)


def code(text: object) -> str:
    """Returns text as code, alternatives apart: a vertical bar in a table's code has no one spelling."""
    return " or ".join(f"`{part}`" for part in str(text).split("|"))


def prose(docstring: str | None) -> str:
    """Returns a docstring as Markdown: its sections become lists, its paragraphs stay."""
    text = "\n".join(_prose_lines(inspect.cleandoc(docstring or "").splitlines())).strip()
    return re.sub(r'"?(<\w+>)"?', r"`\1`", text)  # a token such as <unk>, which HTML would take for a tag


def signature(function: ast.FunctionDef) -> str:
    """Returns a method's signature as a block of code, broken where it is long."""
    result = source(function.returns) if function.returns else "None"
    if is_property(function):
        return f"```py\n{function.name}: {result}\n```"
    arguments = _arguments(function.args)
    line = f"{function.name}({', '.join(arguments)}) -> {result}"
    if len(line) > _LINE:
        line = f"{function.name}(\n" + "".join(f"    {each},\n" for each in arguments) + f") -> {result}"
    return f"```py\n{line}\n```"


def is_property(function: ast.FunctionDef) -> bool:
    """Whether a method is read like an attribute."""
    return is_marked(function, "property") or is_marked(function, "cached_property")


def definition(cls: type) -> ast.ClassDef:
    """Returns the definition of a class as it is written."""
    (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
    if not isinstance(tree, ast.ClassDef):
        raise TypeError(f"{cls} is not defined by a class statement")
    return tree


def methods(tree: ast.ClassDef) -> list[ast.FunctionDef]:
    """Returns the public methods and properties of a class, in the order of the file."""
    return [node for node in tree.body if isinstance(node, ast.FunctionDef) and not node.name.startswith("_")]


def is_marked(function: ast.FunctionDef, decorator: str) -> bool:
    """Whether a method has a decorator of that name."""
    return any(ast.unparse(node).rpartition(".")[2] == decorator for node in function.decorator_list)


def first_sentence(text: str) -> str:
    """Returns a docstring up to its first full stop."""
    paragraph = " ".join(inspect.cleandoc(text).partition("\n\n")[0].split())
    return paragraph.partition(". ")[0].removesuffix(".") + "."


def source(node: ast.expr) -> str:
    """Returns an expression as it is written, with double quotes."""
    return ast.unparse(node).replace("'", '"')


def _arguments(arguments: ast.arguments) -> list[str]:
    """Returns the parameters as they are written, without self."""
    positional = [*arguments.posonlyargs, *arguments.args]
    missing: list[ast.expr | None] = [None] * (len(positional) - len(arguments.defaults))
    parts = [_argument(*pair) for pair in zip(positional, [*missing, *arguments.defaults], strict=True)]
    if arguments.kwonlyargs:
        pairs = zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True)
        parts += ["*", *(_argument(*pair) for pair in pairs)]
    return [part for part in parts if part not in ("self", "cls")]


def _argument(argument: ast.arg, default: ast.expr | None) -> str:
    annotation = f": {source(argument.annotation)}" if argument.annotation else ""
    return f"{argument.arg}{annotation}" + (f" = {source(default)}" if default else "")


def _prose_lines(lines: list[str]) -> Iterator[str]:
    inside = False
    for line in lines:
        if section := _SECTION.match(line):
            inside = section[1] in ("Args", "Attributes", "Raises")
            yield f"{section[1]}:\n"
        elif line and not line.startswith(" "):
            inside = False
            yield line
        elif inside and (entry := _ENTRY.match(line)) and line.startswith("    ") and line[4] != " ":
            yield f"- `{entry[2]}`: {entry[4]}"
        elif inside and line.strip():
            yield f"  {line.strip()}"
        else:
            yield line.strip()
