"""Tasks of a few examples, written where a test works."""

from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

TASK = """\
type: {type}
data: {{name: table, files: {{train: train.tsv, validation: train.tsv, test: train.tsv}}}}
tokenizer: words
model:
  architecture: {architecture}
  head: {head}
  width: 16
  heads: 2
  ffn_width: 16
  layers: 4
  max_length: 32
  dropout: 0.0
  embeddings: {{shared: false}}
training: {{steps: 30, batch_tokens: 512, optimizer: {{name: adamw, lr: 0.01}}, evaluate_every: 30}}
evaluation: {{metrics: [{metrics}], samples: 0}}
"""


@pytest.fixture
def write_task(tmp_path: Path) -> Callable[..., str]:
    """Returns a function that writes a task, whose examples are rows of texts, and returns its file."""

    def write(columns: Sequence[str], rows: Sequence[Sequence[str]], **blocks: str) -> str:
        lines = ["\t".join(row) for row in (columns, *rows)]
        (tmp_path / "train.tsv").write_text("\n".join(lines) + "\n", encoding="utf-8")
        (tmp_path / "task.yaml").write_text(TASK.format(**blocks), encoding="utf-8")
        return str(tmp_path / "task.yaml")

    return write
