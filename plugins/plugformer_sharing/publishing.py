"""The files of a run as they are published: without paths of the author's machine, with a model card."""

import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import yaml

import plugformer
from plugformer.errors import RunError, described
from plugformer_sharing.card import model_card, usage_of
from plugformer_sharing.paths import short_names, shortened

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
        files: By name the content of each, or the place of one with tensors.
        shortened: Paths of this machine that were in the run, and what is published in their place.
    """

    files: dict[str, bytes | Path]
    shortened: dict[str, str]

    @property
    def sizes(self) -> dict[str, int]:
        """The size of each file in bytes."""
        return {
            name: content.stat().st_size if isinstance(content, Path) else len(content)
            for name, content in self.files.items()
        }


def publication(
    trained: "TrainedModel",
    place: str,
    *,
    license: str = "",  # noqa: A002 (its name on the Hub)
    languages: Sequence[str] = (),
    checkpoints: bool = False,
) -> Publication:
    """Returns what is published of a run: text and tensors, nothing that can be executed.

    Args:
        trained: The model of the run directory.
        place: How commands name the published run: a folder, or `hub:OWNER/NAME`.
        license: See `model_card`.
        languages: See `model_card`.
        checkpoints: Also publish the checkpoints, with which others can resume the training.

    Raises:
        RunError: A file is damaged or a symbolic link; or components have changed since training, and give
            other answers.
    """
    from plugformer.runs import RunDirectory, read_json

    folder = trained.place
    _refuse_links(folder)
    trained.refuse_changes()
    values = {name: _read(folder / name) for name in _REWRITTEN if (folder / name).exists()}
    short = short_names(*values.values())
    texts = {name: _written(name, folder, short, value) for name, value in values.items()}
    used = RunDirectory(folder).read_lockfile().get("files", {})
    kept = [folder / name for name in _KEPT if name in used]  # not whatever a stranger's lockfile names
    tensors = [folder / "model.safetensors"]
    for file in sorted((folder / "checkpoints").glob("step-*/*")) if checkpoints else ():
        kept += [file] * (file.suffix == ".json")
        tensors += [file] * (file.suffix == ".safetensors")
    for file in kept:
        read_json(file)  # refuses what is damaged
        texts[file.relative_to(folder).as_posix()] = _text(file)
    name, usage = place.rpartition("/")[2], usage_of(trained, place)
    texts["README.md"] = model_card(trained, name=name, license=license, languages=languages, usage=usage)
    files: dict[str, bytes | Path] = {name: text.encode() for name, text in texts.items()}
    files |= {file.relative_to(folder).as_posix(): file for file in tensors}
    return Publication(files, short)


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


def _written(name: str, folder: Path, short: Mapping[str, str], value: Any) -> str:
    """Returns a file without paths, and as it is where it has none."""
    changed = shortened(value, short)
    for block, key in (("decoding", "pattern"), ("data", "labels")) if name == "task.yaml" else ():
        if key in value.get(block, {}):
            changed[block][key] = value[block][key]  # it may look like a path
    if changed == value:
        return _text(folder / name)
    if name.endswith(".yaml"):
        return yaml.safe_dump(changed, sort_keys=False, allow_unicode=True)
    if name.endswith(".jsonl"):
        return "".join(f"{json.dumps(record, ensure_ascii=False)}\n" for record in changed)
    return json.dumps(changed, ensure_ascii=False, indent=2) + "\n"


def write(published: Publication, folder: Path) -> None:
    """Writes the files into a new folder.

    Raises:
        RunError: The folder exists already, or cannot be written.
    """
    from plugformer.runs import replacing

    if folder.exists():
        raise RunError(f"{folder} exists already and is never overwritten: give another --to")
    with replacing(folder) as temporary:
        temporary.mkdir(parents=True)
        for name, content in published.files.items():
            file = temporary / name
            file.parent.mkdir(parents=True, exist_ok=True)
            if isinstance(content, Path):
                shutil.copyfile(content, file)
            else:
                file.write_bytes(content)


def push(published: Publication, name: str, *, private: bool) -> str:
    """Uploads the files in one commit, to a repository that is created if need be; returns its address.

    Args:
        published: The files.
        name: The repository, `OWNER/NAME`; of the user whose token it is without `OWNER/`.
        private: Whether others cannot see a repository that is created.

    Raises:
        RunError: There is no network, no token, or no right to write there; or the name is impossible.
    """
    from huggingface_hub import CommitOperationAdd, HfApi
    from huggingface_hub.errors import HfHubHTTPError, HFValidationError

    api = HfApi(library_name=plugformer.__name__, library_version=plugformer.__version__)
    try:
        repository = api.create_repo(name, private=private or None, exist_ok=True)
        operations = [
            CommitOperationAdd(path, content if isinstance(content, bytes) else str(content))
            for path, content in published.files.items()
        ]
        api.create_commit(repository.repo_id, operations, commit_message="Upload a Plugformer run")
    except HFValidationError as error:
        raise RunError(f"{name!r} is no name on the Hub: {error}; write OWNER/NAME") from error
    except HfHubHTTPError as error:
        words = "to write there, log in with `hf auth login`, or set HF_TOKEN"
        raise RunError(f"the Hub refuses {name}: {described(error)}\n  {words}") from error
    except Exception as error:
        package = type(error).__module__.partition(".")[0]  # by version of the client
        if not isinstance(error, OSError) and package not in ("httpx", "requests"):
            raise
        words = f"the Hub cannot be reached: {described(error)}"
        raise RunError(f"{words}\n  publish into a folder with --to DIR, and upload it later") from error
    return str(repository)
