"""Programs for the model cards of CTranslate2's exports; they import `ctranslate2` and `tokenizers` alone."""

from plugformer.interfaces import BEGIN, END, SPECIAL_TOKENS, Level
from plugformer.runs import TrainedModel
from plugformer_export.ctranslate2.engine import NEVER, search_options
from plugformer_export.engine import most_tokens, reads_input

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


def program(trained: TrainedModel) -> str:
    """Returns Markdown: how to use an export."""
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
