"""The format of CTranslate2: a translator, a generator or an encoder, by what the model is."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from plugformer.interfaces import BEGIN, END, SPECIAL_TOKENS, Level, LikelihoodMetric
from plugformer.registry import Kind
from plugformer.runs import TrainedModel, own_tensors, save_tensors
from plugformer_export.ctranslate2.engine import NEVER, EncoderEngine, Generator, Translator, search_options
from plugformer_export.ctranslate2.specification import Parts, specification
from plugformer_export.engine import LoadedModel, most_tokens, reads_input, search_problems
from plugformer_export.kept import ExportEngine
from plugformer_export.tokenizer_files import spellings, tokenizer_problems

TRANSLATOR = """
import ctranslate2
import tokenizers

translator = ctranslate2.Translator(".")  # the folder of this card
source = tokenizers.Tokenizer.from_file("tokenizer-{source}.json")
target = tokenizers.Tokenizer.from_file("tokenizer-{target}.json")


def answer(texts):
    rows = [source.encode(text, add_special_tokens=False).tokens for text in texts]
    limits = [{most} for row in rows]  # most tokens of each output
    outputs = {{}}
    for limit in set(limits):
        places = [place for place, other in enumerate(limits) if other == limit]
        results = translator.translate_batch(
            [rows[place] for place in places],
            max_decoding_length=limit,
            min_decoding_length=0,
            max_input_length=0,
            {options},
        )
        outputs |= zip(places, (result.hypotheses[0] for result in results))
    return [target.decode([*map(target.token_to_id, outputs[place])]) for place in range(len(texts))]


print(answer(["{text}"]))
"""

GENERATOR = """
import ctranslate2
import tokenizers

generator = ctranslate2.Generator(".")  # the folder of this card
tokenizer = tokenizers.Tokenizer.from_file("tokenizer-{target}.json")


def answer(texts):
    outputs = []
    for text in texts:
        row = tokenizer.encode(text, add_special_tokens=False).tokens
        limit = {most}
        if limit < 1:  # the prompt leaves no room
            outputs.append("")
            continue
        (result,) = generator.generate_batch(
            [["{begin}", *row{after}]],
            max_length=limit,
            min_length=0,
            include_prompt_in_result=False,
            {options},
        )
        outputs.append(tokenizer.decode(result.sequences_ids[0]))
    return outputs


print(answer(["{text}"]))
"""

ENCODER = """
import ctranslate2
import numpy as np
import tokenizers

encoder = ctranslate2.Encoder(".")  # the folder of this card
tokenizer = tokenizers.Tokenizer.from_file("tokenizer-{source}.json")


def answer(texts):
    rows = [tokenizer.encode(text, add_special_tokens=False).ids for text in texts]
    rows = [[{begin_id}, *row, {end}] for row in rows]
    hidden = np.array(encoder.forward_batch(rows).last_hidden_state)  # (texts, longest, width)
    return [states[: len(row)] for states, row in zip(hidden, rows)]


print(answer(["{text}"])[0].shape)
"""

HEAD = """
These are the hidden states of all tokens. CTranslate2 has no counterpart of the head ({head}): its parameters
are in `head.safetensors`, for your own code. The figures below compare the scores of that head.
"""


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
        names, generates = list(trained.processor.by_side), trained.model.level is Level.NEXT_TOKEN
        options = search_options(trained) if generates else {}
        if options.get("beam_size") == 1:
            options |= NEVER
        two = len(trained.model.stacks) == 2
        template = TRANSLATOR if two else GENERATOR if generates else ENCODER
        code = template.format(
            source=names[0],
            target=names[-1],
            most=most_tokens(trained) if generates else "",
            options=",\n            ".join(f"{name}={value!r}" for name, value in options.items()),
            begin=SPECIAL_TOKENS[BEGIN],
            begin_id=BEGIN,
            after=f', "{SPECIAL_TOKENS[END]}"' if reads_input(trained) else "",
            end=END,
            text="some text",
        )
        parts = ["`pip install ctranslate2 tokenizers`", f"```python\n{code.strip()}\n```"]
        if not generates:
            parts.append(HEAD.strip().format(head=trained.model.parts["head"].label))
        return "\n\n".join(parts)
