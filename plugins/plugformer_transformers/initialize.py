"""Initial values from a model of Hugging Face Transformers."""

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from plugformer.errors import ConfigurationError
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Callback
from plugformer.runs import RunDirectory, own_tensors, read_json
from plugformer_transformers.folder import Folder


class InitializeFromTransformers(Callback):
    """Starts with the weights of a model of Hugging Face Transformers, which also decides settings.

    Write it as `model.initialize_from: {transformers: DIR}`: width, layers and other settings of the model,
    and the tokenizer, then follow from the folder. A head without weights begins with new values; so does a
    classifier of other labels. A run that has a checkpoint, or has ended, needs the folder no more.
    See https://huggingface.co/docs/transformers/main_classes/model.

    Args:
        transformers: A folder with config.json, tokenizer.json and *.safetensors, relative to the task file;
            or the name of a model on the Hugging Face Hub.
    """

    def __init__(self, *, transformers: str) -> None:
        self.source = transformers

    def decided(self, written: Mapping[str, Any]) -> tuple[str, Mapping[str, Any], Mapping[str, Any]]:
        """Returns the file that decides settings, these settings, and others that a task may replace.

        The embedding is that of the output only if the head is the model's own.

        Raises:
            ConfigurationError: There is no such folder, or its model has no counterpart here.
        """
        folder = Folder.open(self.source, weights=False)
        family, config = folder.family, folder.config
        settings, defaults = family.settings(config), family.defaults(config)
        head = written.get("model", {}).get("head") or defaults["head"]
        if _name(head) != _name(defaults["head"]):
            del settings["embeddings"]["tied"]
        file = str(folder.path / "config.json")
        return file, {"model": settings}, {"model": defaults, "tokenizer": folder.tokenizer}

    @hookimpl
    def model_built(self, run: Run) -> None:
        """Copies the weights, unless a checkpoint replaces them.

        Raises:
            ConfigurationError: The weights do not fit the model, or belong to other tokens.
        """
        model = own_tensors(run.model)
        if any(tensor.is_meta for tensor in model.values()):
            return  # the settings have been compared already
        if any(RunDirectory(run.directory).checkpoints.glob("step-*")):
            return
        folder, options = Folder.open(self.source), run.task.tokenizer.source.options
        theirs, ours = (
            {key: block.get(key) for key in ("special", "size")} for block in (folder.tokenizer, options)
        )
        if theirs != ours:
            raise ConfigurationError(
                f"tokenizer: the rows of the embedding of {folder.path} belong to its own tokens; take "
                "`tokenizer` out of the task, or take that of a run that began with the same model"
            )
        found = folder.parameters(options["special"], run.task.model.max_length, model)
        labels, learned = folder.config.get("id2label") or {}, RunDirectory(run.directory).learned
        if not learned.exists() or read_json(learned) != list(labels.values()):  # of another classifier
            found = {name: value for name, value in found.items() if not name.startswith("head.output.")}
        self._refuse_misfits(folder, found, model)
        run.model.load_state_dict(found, strict=False)

    def _refuse_misfits(self, folder: Folder, found: dict[str, Tensor], model: dict[str, Tensor]) -> None:
        problems = [
            f"{name} is missing there" for name in model if name not in found and not name.startswith("head.")
        ]
        for name, value in found.items():
            there, here = tuple(value.shape), tuple(model[name].shape)
            if there != here:
                problems.append(f"{name} is {there} there and {here} here")
        if problems:
            words = "; ".join(sorted(problems)[:5])
            raise ConfigurationError(f"the weights of {folder.path} do not fit the model: {words}")


def _name(component: Any) -> Any:
    return component.get("name") if isinstance(component, Mapping) else component
