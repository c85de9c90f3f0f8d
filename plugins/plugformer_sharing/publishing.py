"""The files of a run as they are published: without paths of the author's machine, with a model card."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

from plugformer.errors import RunError
from plugformer_sharing.card import stated_card, usage_of
from plugformer_sharing.front_matter import Statements
from plugformer_sharing.paths import PathShortener

if TYPE_CHECKING:
    from plugformer.runs import TrainedModel

_REWRITTEN = ("task.yaml", "lock.json", "evaluation.json", "self_check.json", "metrics.jsonl")
"""Files that may name folders of the author."""

_KEPT = ("learned.json", "tokenizer-shared.json", "tokenizer-source.json", "tokenizer-target.json")
"""Files whose checksums are known, or that hold what is in the data."""


@dataclass(frozen=True)
class Publication:
    """What is published.

    Attributes:
        texts: Text files by name.
        tensors: Files of tensors by name, which are large and stay where they are.
        shortened: Paths of this machine that were in the run, and what is published in their place.
    """

    texts: dict[str, str]
    tensors: dict[str, Path]
    shortened: dict[str, str]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes."""
        texts = {name: len(text.encode()) for name, text in self.texts.items()}
        return texts | {name: path.stat().st_size for name, path in self.tensors.items()}

    @property
    def contents(self) -> dict[str, bytes | Path]:
        """Each file's content, or where it is."""
        return {**{name: text.encode() for name, text in self.texts.items()}, **self.tensors}


def publication(
    trained: "TrainedModel", stated: Statements, run: str, *, checkpoints: bool = False
) -> Publication:
    """Returns what is published of a run: text and tensors, nothing that can be executed.

    Args:
        trained: The model of the run directory.
        stated: What the author says about it.
        run: How commands name the published run, such as `hub:NAME`.
        checkpoints: Also publish the checkpoints, with which others can resume the training.

    Raises:
        RunError: A file is damaged, a symbolic link, or names the home folder of this machine where nothing
            may be changed; or components have changed since training, and give other answers.
    """
    from plugformer.runs import RunDirectory

    folder = trained.place
    _refuse_links(folder)
    trained.refuse_changes()
    values = {name: _read(folder / name) for name in _REWRITTEN if (folder / name).exists()}
    shortener = PathShortener.of(*values.values())
    texts = {name: _written(name, folder, shortener, value) for name, value in values.items()}
    used = RunDirectory(folder).read_lockfile().get("files", {})
    for name in _KEPT:  # not whatever a stranger's lock names
        if name in used:
            texts[name] = _unchanged(folder / name)
    tensors = {"model.safetensors": folder / "model.safetensors"}
    for file in sorted((folder / "checkpoints").glob("step-*/*")) if checkpoints else ():
        name = file.relative_to(folder).as_posix()
        if file.suffix == ".json":
            texts[name] = _unchanged(file)
        elif file.suffix == ".safetensors":
            tensors[name] = file
    texts["README.md"] = stated_card(trained, stated, usage=usage_of(trained, run))
    return Publication(texts, tensors, shortener.replaced)


def _refuse_links(folder: Path) -> None:
    """Raises RunError if a run has a link, except into the Hub's cache of its own repository."""
    blobs = folder.resolve().parent.parent / "blobs"
    for file in folder.rglob("*"):
        if file.is_symlink() and file.resolve().parent != blobs:
            words = "what it leads to is not published; replace it by the file or folder itself"
            raise RunError(f"{file} is a symbolic link: {words}")


def _read(file: Path) -> Any:
    """Returns the content of a YAML or JSON file, or the records of the log."""
    from plugformer.runs import RunDirectory, read_json

    if file.suffix == ".yaml":
        return yaml.safe_load(_text(file))
    return RunDirectory(file.parent).logged() if file.suffix == ".jsonl" else read_json(file)


def _text(file: Path) -> str:
    """Returns the text of a file; the log may end with half a line, even with half a character."""
    return file.read_text(encoding="utf-8", errors="replace")


def _written(name: str, folder: Path, shortener: PathShortener, value: Any) -> str:
    """Returns a file without paths, and as it is where it has none."""
    changed = shortener.value(value)
    if name == "task.yaml" and "pattern" in value.get("decoding", {}):
        changed["decoding"]["pattern"] = value["decoding"]["pattern"]  # an expression may look like a path
    if changed == value:
        return _text(folder / name)
    if name.endswith(".yaml"):
        return yaml.safe_dump(changed, sort_keys=False, allow_unicode=True)
    if name.endswith(".jsonl"):
        return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in changed)
    return json.dumps(changed, ensure_ascii=False, indent=2) + "\n"


def _unchanged(file: Path) -> str:
    """Returns the text of a JSON file that must stay as it is."""
    from plugformer.runs import read_json

    read_json(file)  # refuses what is damaged
    text, home = _text(file), f"{Path.home()}/"
    if len(home) > 2 and home in text:
        line = text[: text.index(home)].count("\n") + 1
        raise RunError(
            f"{file}:{line} names {home}, a folder of this machine: train without it, then publish"
        )
    return text
