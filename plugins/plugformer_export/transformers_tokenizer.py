"""A run's tokenizer as Transformers has it: numbers, special tokens, and what is put around texts."""

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from plugformer.interfaces import END, SPECIAL_TOKENS, Level
from plugformer.runs import TrainedModel, own_tensors
from plugformer_transformers.family import Config, Family, token_map
from plugformer_transformers.tokenizer import TransformersTokenizer
from plugformer_transformers.weights import Vocabulary

PROBED = 2000
"""Most tokens of a vocabulary whose texts are encoded by the file alone, to see whether it is enough."""


class Vocabularies:
    """The numbers of tokens here and there.

    Where one token there is several special ones here, whose parameters training has set apart, these become
    tokens of their own behind all others.

    Args:
        trained: A model with one tokenizer.
        family: Its family.
        config: Its configuration there.

    Attributes:
        step: From the numbers there to those here.
        special: The numbers there of PADDING, UNKNOWN, BEGIN and END.
        front: The number there of a token in front of every text, if there is one.
        added: Spellings of new tokens, the last ones of all.
    """

    def __init__(self, trained: TrainedModel, family: Family, config: Config) -> None:
        self.trained = trained
        self.family = family
        self.tokenizer: Any = trained.processor.source
        self.front: int | None = None
        self.is_theirs = isinstance(self.tokenizer, TransformersTokenizer)
        self.step: Vocabulary = token_map(range(len(SPECIAL_TOKENS)), self.tokenizer.size)
        if isinstance(self.tokenizer, TransformersTokenizer):
            self.step, self.front = self.tokenizer.vocabulary, self.tokenizer.front
        tokens, size = list(self.step.tokens), self.step.size
        apart = [index for index in range(END) if self._is_apart(index, config)]
        for number, index in enumerate(apart, size):
            tokens[index] = number
        self.step = Vocabulary(tokens, size + len(apart))
        self.special = tokens[: END + 1]
        self.added = [SPECIAL_TOKENS[index] for index in apart]

    def _is_apart(self, index: int, config: Config) -> bool:
        """Returns whether a special token here is a later one there, but has parameters of its own."""
        tokens = self.step.tokens
        later = [other for other in range(index + 1, END + 1) if tokens[other] == tokens[index]]
        if not later:
            return False
        own = own_tensors(self.trained.model)
        for weight in self.family.weights(config, self.step, self.trained.task.model.max_length):
            rows = own.get(weight.ours[0])
            if self.step in weight.steps and rows is not None and (rows[index] != rows[later[-1]]).any():
                return True
        return False

    def pipeline(self) -> Any:
        """Returns the file of the tokenizer, read by the library `tokenizers`, with the new tokens."""
        import tokenizers

        with TemporaryDirectory() as folder:
            file = Path(folder) / "tokenizer.json"
            self.tokenizer.save(file)
            pipeline = tokenizers.Tokenizer.from_file(str(file))
        if self.added:
            unused = range(pipeline.get_vocab_size(), self.step.size - len(self.added))
            new = [f"<unused{number}>" for number in unused]
            for token in self.added:
                while pipeline.token_to_id(token) is not None:
                    token = f"<{token}>"
                new.append(token)
            pipeline.add_special_tokens(new)
        return pipeline

    def problems(self) -> list[str]:
        """Returns why a file cannot stand for the tokenizer, or one token for several."""
        if not hasattr(self.tokenizer, "backend_tokenizer"):
            return ["tokenizer: one without a tokenizer.json"]
        pipeline = self.pipeline()
        alone = [pipeline.encode(text, add_special_tokens=False).ids for text in self.texts()]
        if self.encoded() != alone:
            return ["tokenizer: its file alone, read by `tokenizers`, encodes otherwise; it"]
        return []

    def texts(self) -> list[str]:
        """Returns texts that have most tokens of the vocabulary, but none that spells a special one."""
        added = self.pipeline().get_added_tokens_decoder().values()
        special = {token.content for token in added if token.special}
        known = range(END + 1, min(self.tokenizer.size, PROBED))
        numbers = [number for number in known if self.tokenizer.spelling(number) not in special]
        rows = [numbers[start : start + 10] for start in range(0, len(numbers), 10)]
        return [text for text in self.tokenizer.decode(rows) if text.strip()]

    def encoded(self) -> list[list[int]]:
        """Returns the numbers there of the tokens of those texts."""
        rows = self.tokenizer.encode(self.texts())
        skipped = 0 if self.front is None else 1
        return [[self.step.tokens[token] for token in row[skipped:]] for row in rows]

    def pretrained(self) -> Any:
        """Returns the tokenizer of Transformers, which puts special tokens around texts as the model does."""
        import transformers
        from tokenizers import processors

        pipeline, special = self.pipeline(), self.special
        spelled = [pipeline.id_to_token(number) for number in special]
        names: dict[str, str] = {}
        for index, known in enumerate(self.family.special):
            name = "unk" if index == 1 and not self.is_theirs else known[0]
            if name != "decoder_start":
                names[f"{name}_token"] = spelled[index]
        if self.front is not None:
            names[f"{self.family.prefix}_token"] = pipeline.id_to_token(self.front)
        before, behind = self._around()
        single = [*before, "$A", *behind]
        words = [word for word in (*before, *behind) if word != "$A"]
        tokens = [(word, pipeline.token_to_id(word)) for word in dict.fromkeys(words)]
        pair = [*(f"{word}:0" for word in single), "$B:1", *(f"{word}:1" for word in behind)]
        if tokens:
            pipeline.post_processor = processors.TemplateProcessing(
                single=single, pair=pair, special_tokens=tokens
            )
        alone = self.trained.model.level is Level.NEXT_TOKEN and len(self.trained.model.stacks) == 1
        return transformers.PreTrainedTokenizerFast(
            tokenizer_object=pipeline,
            model_max_length=self.trained.task.model.max_length,
            padding_side="left" if alone else "right",
            clean_up_tokenization_spaces=False,
            **names,
        )

    def _around(self) -> tuple[list[str], list[str]]:
        """Returns the special tokens before and behind a text."""
        pipeline = self.pipeline()
        begin, end = (pipeline.id_to_token(self.special[index]) for index in (2, 3))
        front = [] if self.front is None else [pipeline.id_to_token(self.front)]
        if len(self.trained.model.stacks) > 1:
            return front, [end]
        if self.trained.model.level is Level.NEXT_TOKEN and not reads_input(self.trained):
            return [begin, *front], []
        return [begin, *front], [end]


def reads_input(trained: TrainedModel) -> bool:
    """Returns whether examples have an input, which END separates from the output."""
    return any(column.role == "input" for column in trained.experiment.task_type.columns)
