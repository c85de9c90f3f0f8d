"""An architecture with inputs of its own is tried on the examples of a task type that has them."""

import pytest
from tests.testing.outcomes import failure, unsound

TREE = '''
from dataclasses import replace

from plugformer.interfaces import Batch, Column, Input, Level, TaskType
from plugformer_blocks import pad, pad_targets
from plugformer_plugins.architecture.encoder_only import EncoderOnly

class Tree(TaskType):
    """Tags of words, each of which has a head."""

    level, output_type, outputs = Level.TOKEN, "tags", 2
    columns = (
        Column("words", "words", "input", tokenizer="source"),
        Column("heads", "numbers", "input", along="words"),
        Column("tags", "tags", "output", along="words"),
    )
    inputs = (Input("tokens"), Input("heads"))
    check_examples = (
        {"words": ["a", "b", "c"], "heads": [0.0, 0.0, 1.0], "tags": ["X", "Y", "X"]},
        {"words": ["d"], "heads": [0.0], "tags": ["Y"]},
        {"words": ["a", "d"], "heads": [1.0, 1.0], "tags": ["X", "X"]},
    )

    def encode(self, examples, tokenizers):
        rows = [[row[0] for row in tokenizers.source.encode(words)] for words in examples["words"]]
        heads = [[int(head) + 4 for head in heads] for heads in examples["heads"]]
        tags = [["XY".index(tag) for tag in tags] for tags in examples["tags"]]
        return {"tokens": rows, "heads": heads, "targets": tags}

class TreeEncoder(EncoderOnly):
    levels = frozenset({Level.TOKEN})

    @classmethod
    def reads(cls, inputs, level):
        return len(inputs) == 2

    def collate(self, encoded, level, *, lengths=()):
        (length,) = lengths or (0,)
        tokens, heads = (pad(encoded.inputs[name], begin=True, length=length) for name in ("tokens", "heads"))
        source = replace(tokens, marks={"head": (heads.ids - 4).clamp(min=0)})
        return Batch(source, targets=pad_targets(encoded.targets, length=length))

    def positions(self, lengths, level):
        return lengths[:, :1] + 2

class ForgetsHeads(TreeEncoder):
    def collate(self, encoded, level, **padding):
        batch = super().collate(encoded, level, **padding)
        return replace(batch, source=replace(batch.source, marks={}))

class CountsInputs(TreeEncoder):
    def rows(self, counts, level):
        return counts[:, :-1]
'''
COMPONENTS = """
components:
  architecture:
    tree: {class: 'own_tree:TreeEncoder'}
    forgets: {class: 'own_tree:ForgetsHeads'}
    counts: {class: 'own_tree:CountsInputs'}
  task_type: {heads: {class: 'own_tree:Tree'}}
"""


@pytest.fixture(autouse=True)
def manifest(tmp_path, monkeypatch):
    (tmp_path / "own_tree.py").write_text(TREE)
    (file := tmp_path / "registry.yaml").write_text(COMPONENTS)
    monkeypatch.setenv("PLUGFORMER_REGISTRY", str(file))


def test_it_is_checked():
    assert not unsound("architecture/local:tree")


@pytest.mark.parametrize(
    ("name", "sentence", "named"),
    [
        ("forgets", "all_that_is_given_is_read", "heads"),
        ("counts", "positions_cover_a_batch", "own_tree:CountsInputs: `rows`"),
    ],
)
def test_a_fault_is_found(name, sentence, named):
    assert named in failure(f"architecture/local:{name}", sentence)
