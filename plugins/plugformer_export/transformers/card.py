"""Programs for the model cards of exports to Transformers; they import `transformers` and `torch` alone."""

from plugformer.interfaces import Level
from plugformer.runs import TrainedModel
from plugformer_export.engine import reads_input

_OPEN = """\
import torch
from transformers import AutoTokenizer, {auto}

folder = "."  # that of this card
tokenizer = AutoTokenizer.from_pretrained(folder{trust})
model = {auto}.from_pretrained(folder{trust}).eval()


@torch.no_grad()
def answer(texts):
    inputs = tokenizer(texts, padding=True, return_tensors="pt", return_token_type_ids={segments})
"""

_TRANSLATE = """\
    outputs = model.generate(**inputs{limit})
    return tokenizer.decode(outputs, skip_special_tokens=True)
"""

_CONTINUE = """\
    outputs = model.generate(**inputs{limit})
    return tokenizer.decode(outputs[:, inputs["input_ids"].shape[1] :], skip_special_tokens=True)
"""

_CLASSIFY = """\
    best = model(**inputs).logits.argmax(dim=-1)
    return [model.config.id2label[number] for number in best.tolist()]
"""

_LABEL_TOKENS = """\
    best = model(**inputs).logits.argmax(dim=-1)
    return [[model.config.id2label[number] for number in row] for row in best.tolist()]
"""

_FILL = """\
    best = model(**inputs).logits.argmax(dim=-1)
    return tokenizer.decode(best, skip_special_tokens=True)
"""

_CLOSE = """

print(answer(["{text}"]))
"""

_AUTO = {
    "ForCausalLM": ("AutoModelForCausalLM", _CONTINUE),
    "LMHeadModel": ("AutoModelForCausalLM", _CONTINUE),
    "ForMaskedLM": ("AutoModelForMaskedLM", _FILL),
    "ForSequenceClassification": ("AutoModelForSequenceClassification", _CLASSIFY),
    "ForTokenClassification": ("AutoModelForTokenClassification", _LABEL_TOKENS),
    "ForConditionalGeneration": ("AutoModelForSeq2SeqLM", _TRANSLATE),
    "MTModel": ("AutoModelForSeq2SeqLM", _TRANSLATE),
}
"""The class to load with and the body of the program, by the end of the name of the model's class."""


def auto_class(class_name: str) -> str:
    """Returns the class that a model of a class is loaded with."""
    return next(found for end, (found, _) in _AUTO.items() if class_name.endswith(end))


def program(trained: TrainedModel, class_name: str, *, code: bool) -> str:
    """Returns Markdown: how to use an export."""
    auto, body = next(found for end, found in _AUTO.items() if class_name.endswith(end))
    limit = _limit(trained) if trained.model.level is Level.NEXT_TOKEN else ""
    segments, trust = trained.model.level is not Level.NEXT_TOKEN, ", trust_remote_code=True" if code else ""
    text = (_OPEN + body + _CLOSE).format(
        auto=auto, limit=limit, segments=segments, text="some text", trust=trust
    )
    return f"`pip install torch transformers`. The class is `{class_name}`.\n\n```python\n{text.strip()}\n```"


def _limit(trained: TrainedModel) -> str:
    """Returns the argument that limits outputs, where the settings of `generate` cannot."""
    setting = trained.task.decoding.max_length
    if isinstance(setting, int):
        return ""
    special = 1 if len(trained.model.stacks) > 1 else 1 + reads_input(trained)
    more = int(setting.removeprefix("source") or 0) - special
    return f', max_new_tokens=inputs["input_ids"].shape[1] + {more}'
