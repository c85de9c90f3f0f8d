"""Initial values from another run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

from pydantic import Field
from torch import Tensor

from plugformer.errors import ConfigurationError, nearest
from plugformer.hooks import Run, hookimpl
from plugformer.interfaces import Callback
from plugformer.runs import RunDirectory, load_tensors, own_tensors, read_json


class InitializeFrom(Callback):
    """Starts with the parameters of another run, in some parts of the model.

    BERT, Devlin et al. 2019, section 3: https://arxiv.org/abs/1810.04805. Names and shapes of these parts
    must be those of the other run, and so must the tokens or classes of their rows: take the tokenizers from
    it as well, by `tokenizer.run`. A run that has a checkpoint resumes without the other run.

    Args:
        run: A run directory, relative to the task file.
        parts: Parts of its model: `encoder`, `decoder` and `head`, without embeddings, and `embedding`.
    """

    def __init__(
        self,
        *,
        run: Path,
        parts: Annotated[list[str], Field(min_length=1)],
    ) -> None:
        self.run = run
        self.parts = parts

    @hookimpl
    def model_built(self, run: Run) -> None:
        """Copies the parameters, unless a checkpoint replaces them.

        Raises:
            ConfigurationError: Parts do not fit the model, or belong to other tokens or classes.
            RunError: There is no such run, or it is damaged.
        """
        model = own_tensors(run.model)
        validating = any(tensor.is_meta for tensor in model.values())  # there is no vocabulary yet
        if not validating and any(RunDirectory(run.directory).checkpoints.glob("step-*")):
            return
        saved = load_tensors(RunDirectory.open(self.run).model)
        problems = list(self._misfits(model, saved, validating=validating))
        if not validating:
            problems += self._other_vocabularies(run.directory, model)
        if problems:
            raise ConfigurationError("\n".join(problems))
        if not validating:
            taken = {name: tensor for name, tensor in saved.items() if _part(name) in self.parts}
            run.model.load_state_dict(taken, strict=False)

    def _misfits(
        self, model: dict[str, Tensor], saved: dict[str, Tensor], *, validating: bool
    ) -> Iterator[str]:
        known = sorted({_part(name) for name in model})
        for part in self.parts:
            if part not in known:
                yield f"the model has no part {part!r}{nearest(part, known)}; known: {', '.join(known)}"
            elif not (validating and part in ("embedding", "head")):
                for name in sorted(name for name in model.keys() | saved.keys() if _part(name) == part):
                    here, there = (
                        f"{tuple(values[name].shape)} {values[name].dtype}" if name in values else "nothing"
                        for values in (model, saved)
                    )
                    if here != there:
                        yield f"{part!r} of {self.run} does not fit: {name} is {there} there and {here} here"
                        break

    def _other_vocabularies(self, directory: Path, model: dict[str, Tensor]) -> Iterator[str]:
        """Yields a problem for each part whose rows belong to other tokens or classes in the other run."""
        sides = set()
        if "embedding" in self.parts:
            stacks = {name.partition(".")[0] for name in model if _part(name) == "embedding"}
            sides = {"target" if stack == "decoder" else "source" for stack in stacks}
        if "head" in self.parts:
            here, there = (read_json(RunDirectory(path).learned) for path in (directory, self.run))
            if here != there:
                yield f"Labels differ: this task has {here}, {self.run} has {there}."
            elif here is None:
                sides.add("target")
        for side in sorted(sides):
            here, there = (read_json(_tokenizer(path, side)) for path in (directory, self.run))
            if here != there:
                yield (
                    f"the {side} vocabulary here is not that of {self.run}, so that embeddings would belong "
                    f"to other tokens; take it from there as well: `tokenizer: {{run: {self.run}}}`"
                )


def _part(name: str) -> str:
    """Returns the part of a parameter: its stack or the head, or `embedding` in any stack."""
    first, *rest = name.split(".")
    return "embedding" if "embedding" in rest[:1] else first


def _tokenizer(run: Path, side: str) -> Path:
    """Returns the file of a run's tokenizer for a side, which may serve both or be the only one."""
    files = [run / f"tokenizer-{name}.json" for name in (side, "shared", "source")]
    return next((file for file in files if file.exists()), files[0])
