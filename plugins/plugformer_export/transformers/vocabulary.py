"""A run's tokenizer as Transformers has it: numbers, special tokens, and what is put around texts."""

from typing import Any

from plugformer.interfaces import END, SPECIAL_TOKENS, Level
from plugformer.runs import TrainedModel, own_tensors
from plugformer_blocks import PipelineTokenizer
from plugformer_export.engine import reads_input
from plugformer_export.tokenizer_files import PROBED, pipeline_of, probes
from plugformer_transformers.family import Family, is_vocabulary
from plugformer_transformers.tokenizer import TransformersTokenizer
from plugformer_transformers.weights import Vocabulary


class ExportedTokenizer:
    """A tokenizer with the numbers that its tokens have there.

    Where one token there is several special ones here, whose parameters training has set apart, these become
    tokens of their own after all others.

    Args:
        trained: A model with one tokenizer.
        family: Its family.

    Attributes:
        vocabulary: The numbers of tokens there.
        special: The numbers there of PADDING, UNKNOWN, BEGIN and END.
        front: The number there of a token in front of every text, if there is one.
        added: Spellings of new tokens, the last ones of all.
    """

    def __init__(self, trained: TrainedModel, family: Family) -> None:
        self.trained = trained
        self.family = family
        self.tokenizer: Any = trained.processor.source
        self.front: int | None = None
        self.is_theirs = isinstance(self.tokenizer, TransformersTokenizer)
        vocabulary = Vocabulary.of(range(len(SPECIAL_TOKENS)), self.tokenizer.size)
        if isinstance(self.tokenizer, TransformersTokenizer):
            vocabulary, self.front = self.tokenizer.vocabulary, self.tokenizer.front
        tables = [rows for name, rows in own_tensors(trained.model).items() if is_vocabulary(name)]
        tokens = list(vocabulary.tokens)
        last = {tokens[index]: index for index in range(END + 1)}  # here, of each special token there
        shared = ((index, last[tokens[index]]) for index in range(END + 1) if last[tokens[index]] != index)
        apart = [one for one, other in shared if any((rows[one] != rows[other]).any() for rows in tables)]
        for number, index in enumerate(apart, vocabulary.size):
            tokens[index] = number
        self.vocabulary = Vocabulary(tokens, vocabulary.size + len(apart))
        self.special = tokens[: END + 1]
        self.added = [SPECIAL_TOKENS[index] for index in apart]

    def pipeline(self) -> Any:
        """Returns the file of the tokenizer, read by the library `tokenizers`, with the new tokens."""
        pipeline = pipeline_of(self.tokenizer)
        if self.added:
            unused = range(pipeline.get_vocab_size(), self.vocabulary.size - len(self.added))
            new = [f"<unused{number}>" for number in unused]
            for token in self.added:
                while pipeline.token_to_id(token) is not None:
                    token = f"<{token}>"
                new.append(token)
            pipeline.add_special_tokens(new)
        return pipeline

    def problems(self) -> list[str]:
        """Returns why a file cannot stand for the tokenizer, or one token for several."""
        if not isinstance(self.tokenizer, PipelineTokenizer):
            return ["tokenizer: one without a tokenizer.json"]
        pipeline = self.pipeline()
        texts = self.texts()
        if self.encoded(texts) != [pipeline.encode(text, add_special_tokens=False).ids for text in texts]:
            return ["tokenizer: its file alone, read by `tokenizers`, encodes texts differently; it"]
        return []

    def texts(self) -> list[str]:
        """Returns texts that have most tokens of the vocabulary, but none that spells a special one."""
        added = self.pipeline().get_added_tokens_decoder().values()
        special = {token.content for token in added if token.special}
        known = range(END + 1, min(self.tokenizer.size, PROBED))
        numbers = [number for number in known if self.tokenizer.spelling(number) not in special]
        return [text for text in probes(self.tokenizer, numbers) if text.strip()]

    def encoded(self, texts: list[str]) -> list[list[int]]:
        """Returns the numbers there of the tokens of texts."""
        rows = self.tokenizer.encode(texts)
        skipped = 0 if self.front is None else 1
        return [[self.vocabulary.tokens[token] for token in row[skipped:]] for row in rows]

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
        before, after = self._around()
        single = [*before, "$A", *after]
        words = [word for word in (*before, *after) if word != "$A"]
        tokens = [(word, pipeline.token_to_id(word)) for word in dict.fromkeys(words)]
        pair = [*(f"{word}:0" for word in single), "$B:1", *(f"{word}:1" for word in after)]
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
        """Returns the special tokens before and after a text."""
        pipeline = self.pipeline()
        begin, end = (pipeline.id_to_token(self.special[index]) for index in (2, 3))
        front = [] if self.front is None else [pipeline.id_to_token(self.front)]
        if len(self.trained.model.stacks) > 1:
            return front, [end]
        if self.trained.model.level is Level.NEXT_TOKEN and not reads_input(self.trained):
            return [begin, *front], []
        return [begin, *front], [end]
