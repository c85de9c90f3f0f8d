"""The format of CTranslate2: a translator, a generator or an encoder, by what the model is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugformer.interfaces import Level, LikelihoodMetric
from plugformer.registry import Kind
from plugformer.runs import TrainedModel, own_tensors, save_tensors
from plugformer_export.ctranslate2.card import program
from plugformer_export.ctranslate2.engine import EncoderEngine, Generator, Translator
from plugformer_export.ctranslate2.specification import Parts, specification
from plugformer_export.engine import LoadedModel, search_problems
from plugformer_export.kept import ExportEngine
from plugformer_export.tokenizer_files import spellings, tokenizer_problems


def _metrics_of_choices(trained: TrainedModel) -> Iterator[str]:
    """Yields the metrics that ask which token is the most probable one."""
    for block in trained.task.evaluation.metrics:
        metric: Any = trained.registry.load(Kind.METRIC, block.name)
        if issubclass(metric, LikelihoodMetric) and not metric.probabilities:
            yield block.name


class CTranslate2(ExportEngine):
    """CTranslate2, with a search of its own; its format, with the files of the tokenizers.

    https://opennmt.net/CTranslate2. Where the head is not exported, it has a file of its own.

    Args:
        compute_type: The numbers that weights are stored and computed in, such as int8.
    """

    name = "ctranslate2"
    libraries = ("ctranslate2",)
    compute_types = ("float32", "int8", "int8_float32", "int16", "float16", "int8_float16", "bfloat16")

    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns the parts and settings without a counterpart."""
        found = [*Parts(trained).problems(), *search_problems(trained), *tokenizer_problems(trained)]
        if len(trained.model.stacks) == 2:  # a translator scores right tokens alone
            found += map("evaluation.metrics: {!r}".format, _metrics_of_choices(trained))
        return found

    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes the model, vocabularies and tokenizers."""
        spec, vocabularies = specification(trained), spellings(trained)
        trained.processor.save(folder)
        if len(trained.model.stacks) == 2:
            spec.register_source_vocabulary(vocabularies[0])
            spec.register_target_vocabulary(vocabularies[-1])
        else:
            spec.register_vocabulary(vocabularies[0])
        spec.validate()
        spec.optimize(quantization=None if self.compute_type == "float32" else self.compute_type)
        spec.save(str(folder))
        if trained.model.level is not Level.NEXT_TOKEN:
            save_tensors(own_tensors(trained.model.head), folder / "head.safetensors")

    def load(self, trained: TrainedModel, folder: Path) -> LoadedModel:
        """Returns the translator, the generator or the encoder."""
        names = set(trained.model.stacks)
        kind = Translator if len(names) == 2 else Generator if "decoder" in names else EncoderEngine
        return kind(trained, folder)

    def usage(self, trained: TrainedModel) -> str:
        """Returns a program that needs `ctranslate2` and `tokenizers` alone."""
        return program(trained)
