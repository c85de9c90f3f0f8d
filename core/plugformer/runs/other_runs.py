"""The other runs that a task starts from: their tokenizers, and models that hooks take parameters from."""

from pathlib import Path
from typing import Any

from pydantic import ValidationError

from plugformer.configuration.paths import tokenizer_of
from plugformer.configuration.task import Task, TokenizerSettings
from plugformer.data.files import files_version
from plugformer.errors import PlugformerError
from plugformer.runs.directory import RunDirectory
from plugformer.yaml_tree import Finding, plain


def origin(task: Task) -> dict[str, Any]:
    """Returns `other_runs`, the lock's record of the runs that a task names, with checksums; empty if none.

    Args:
        task: Fully resolved.
    """
    records: dict[str, Any] = {}
    for value in (value for hook in task.training.hooks for value in hook.options.values()):
        if isinstance(value, str | Path) and (model := RunDirectory(Path(value)).model).is_file():
            records.setdefault("models", {})[str(value)] = files_version([model])
    if (run := task.tokenizer.run) is not None:
        files = sorted(Path(run).glob("tokenizer-*.json"))
        records["tokenizers"] = {"run": run, **{file.stem: files_version([file]) for file in files}}
    return {"other_runs": records} if records else {}


def misfits(task: Task) -> list[Finding]:
    """Returns the problems of a resolved task with the run that its tokenizers come from."""
    tokenizer, path = task.tokenizer, ("tokenizer", "run")
    if tokenizer.run is None:
        return []
    try:
        RunDirectory.open(Path(tokenizer.run))
        saved = TokenizerSettings.model_validate(plain(tokenizer_of(Path(tokenizer.run))))
    except PlugformerError as error:
        return [(path, str(error))]
    except ValidationError as error:
        return [(path, f"{tokenizer.run} is damaged: {error}")]
    if saved.model_copy(update={"run": tokenizer.run}) == tokenizer:
        return []
    words = (
        f"the tokenizers of {tokenizer.run} have another name or other options than are written here\n"
        "leave name and options out: they come from the run"
    )
    return [(path, words)]
