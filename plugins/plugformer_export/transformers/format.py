"""The format of Hugging Face Transformers: a folder that `from_pretrained` reads."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

from plugformer.errors import ConfigurationError
from plugformer.interfaces import BEGIN, PADDING, Level
from plugformer.registry import Kind
from plugformer.runs import TrainedModel, own_tensors, save_tensors
from plugformer_export.engine import LoadedModel, search_problems
from plugformer_export.kept import ExportEngine
from plugformer_export.transformers.card import program
from plugformer_export.transformers.engine import TransformersEngine, without_progress
from plugformer_export.transformers.fit import Fit, nearest_fit
from plugformer_export.transformers.own_code import fit, write_code
from plugformer_export.transformers.vocabulary import ExportedTokenizer


class Transformers(ExportEngine):
    """The files that `save_pretrained` writes, of a class of Transformers that computes the same.

    https://huggingface.co/docs/transformers. It is written for, and answers no questions here.

    Args:
        compute_type: The numbers that weights are stored in.
        code: Whether the model has code of its own, which computes what no class of Transformers does. Who
            loads it has to trust it: `trust_remote_code=True`.
    """

    name = "transformers"
    automatic = False
    extra = "pretrained"
    libraries = ("transformers",)

    def __init__(self, *, compute_type: str = "float32", code: bool = False) -> None:
        super().__init__(compute_type=compute_type)
        self.code = code

    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns what keeps the model from the nearest family, and the tokenizer from a file."""
        self._fit = fit(trained) if self.code else nearest_fit(trained)
        found = [*self._fit.problems, *search_problems(trained)]
        source, target = trained.processor.tokenizers
        if source is not target:
            return [*found, "tokenizer: one for the source and one for the target"]
        if found:
            return found
        self._tokenizer = ExportedTokenizer(trained, self._fit.family)
        return self._tokenizer.problems()

    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes configuration, weights, tokenizer and the settings of the search."""
        import transformers

        config = configuration(trained, self._fit, self._tokenizer)
        tensors = weights(trained, self._fit, self._tokenizer)
        if self.code:
            write_code(trained, config, self._fit.class_name, folder)
            save_tensors(tensors, folder / "model.safetensors")
            self._tokenizer.pretrained().save_pretrained(folder)
            if trained.model.level is Level.NEXT_TOKEN:
                generation(trained, self._tokenizer).save_pretrained(folder)
            return
        kind: Any = getattr(transformers, self._fit.class_name)
        with without_progress():
            model = kind(kind.config_class(**config))
            model.load_state_dict(tensors, strict=False)
            model.tie_weights()
            if trained.model.level is Level.NEXT_TOKEN:
                model.generation_config = generation(trained, self._tokenizer)
            model.save_pretrained(folder)
            self._tokenizer.pretrained().save_pretrained(folder)

    def load(self, trained: TrainedModel, folder: Path) -> LoadedModel:
        """Returns the model that Transformers loads, after a look at its tokenizer.

        Raises:
            ExportError: The tokenizer splits texts differently.
        """
        return TransformersEngine(trained, folder, self._fit.class_name, self._tokenizer, code=self.code)

    def answering(self, trained: TrainedModel, notify: Callable[[str], None]) -> NoReturn:  # noqa: ARG002
        """Raises ConfigurationError: `generate` gives no scores of its outputs."""
        raise ConfigurationError(
            "engine 'transformers': its answers have no scores; export the run with "
            "`plugformer export RUN --to transformers`, or choose another engine"
        )

    def usage(self, trained: TrainedModel) -> str:
        """Returns a program that needs `transformers` alone."""
        return program(trained, self._fit.class_name, code=self.code)


def special_ids(trained: TrainedModel, tokenizer: ExportedTokenizer) -> dict[str, int | None]:
    """Returns the special tokens that a configuration names."""
    special, translates = tokenizer.special, len(trained.model.stacks) > 1
    ids = {
        "pad_token_id": special[0],
        "bos_token_id": tokenizer.front if translates else special[2],
        "eos_token_id": special[3],
    }
    return {**ids, "decoder_start_token_id": special[2]} if translates else ids


def configuration(trained: TrainedModel, fit: Fit, tokenizer: ExportedTokenizer) -> dict[str, Any]:
    """Returns what `config.json` says."""
    config: dict[str, Any] = {
        **fit.config,
        "vocab_size": tokenizer.vocabulary.size,
        **special_ids(trained, tokenizer),
    }
    if len(trained.model.stacks) > 1:
        config["forced_eos_token_id"] = None
    labels = trained.processor.task_type.state
    if trained.model.level is not Level.NEXT_TOKEN and isinstance(labels, list) and labels:
        config["id2label"] = dict(enumerate(map(str, labels)))
        config["label2id"] = {str(label): number for number, label in enumerate(labels)}
    return config


def weights(trained: TrainedModel, fit: Fit, tokenizer: ExportedTokenizer) -> dict[str, Any]:
    """Returns the weights as Transformers names them."""
    own, rows = own_tensors(trained.model), trained.task.model.max_length
    return {
        weight.theirs: weight.outward([own[name] for name in weight.ours])
        for weight in fit.family.weights(fit.config, tokenizer.vocabulary, rows, own)
    }


def generation(trained: TrainedModel, tokenizer: ExportedTokenizer) -> Any:
    """Returns the settings of `generate` that search as the task's decoding does."""
    import transformers

    decoding: Any = trained.experiment.create(Kind.DECODING, trained.task.decoding)
    special = tokenizer.special
    never = sorted({special[PADDING], special[BEGIN]} - {special[3]})
    longest = trained.task.decoding.max_length
    beams = {}
    if getattr(decoding, "size", 1) > 1:
        beams = {
            "num_beams": decoding.size,
            "length_penalty": decoding.length_penalty,
            "early_stopping": True,
        }
    return transformers.GenerationConfig(
        **special_ids(trained, tokenizer),
        do_sample=False,
        suppress_tokens=never or None,
        max_new_tokens=longest if isinstance(longest, int) else None,
        **beams,
    )
