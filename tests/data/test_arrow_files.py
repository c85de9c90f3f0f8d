"""Examples on disk: written a few at a time, and never all in memory."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from datasets import ClassLabel, Features, Value

from plugformer.cache import scratch_folder
from plugformer.configuration.task import Task
from plugformer.data.arrow import PLACE, ROWS, on_disk, write_arrow
from plugformer.data.preparation import prepare
from plugformer.errors import DataError
from plugformer.experiment import Experiment
from plugformer.registry import Registry

TEXT = Features({"text": Value("string")})


def test_rows_come_back_in_order_with_their_types() -> None:
    features = Features({"text": Value("string"), "label": ClassLabel(names=["a", "b"])})
    rows = [(f"text {number}", number % 2) for number in range(2 * ROWS + 1)]
    data = on_disk(iter(rows), features)
    assert list(zip(data["text"], data["label"], strict=True)) == rows
    assert data.features == features


def test_no_file_is_left_behind() -> None:
    def broken() -> Iterator[tuple[str]]:
        yield ("one",)
        raise ValueError("no more")

    before = {*scratch_folder(PLACE).glob("*.arrow")}  # of data that other tests have
    on_disk([("one",)], TEXT)
    with pytest.raises(ValueError, match="no more"):
        on_disk(broken(), TEXT)
    assert {*scratch_folder(PLACE).glob("*.arrow")} <= before


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="a device that is always full is Linux's")
def test_a_full_disk_is_named() -> None:
    table = pa.table({"text": ["x" * 10_000_000]})
    with pytest.raises(
        DataError, match=r"/dev/full: cannot write examples: .*No space left.*PLUGFORMER_CACHE"
    ):
        write_arrow(Path("/dev/full"), [table], TEXT)


def test_prepared_examples_stay_on_disk(tmp_path: Path) -> None:
    lines = 5 * ROWS
    (tmp_path / "long.tsv").write_text("".join(f"{number:0200}\t{number}\n" for number in range(lines)))
    data = {"name": "table", "files": {"train": str(tmp_path / "long.tsv")}, "header": False}
    task = Task.model_validate(
        {
            "type": "sequence-to-sequence",
            "data": {**data, "split": {"validation": 0.1}},
            "tokenizer": "characters",
            "model": {"architecture": "encoder-decoder", "head": "language_model"},
        }
    )
    for _ in range(2):  # made, then found
        before = pa.total_allocated_bytes()
        prepared = prepare(Experiment.of(task, Registry.discover()))
        assert prepared.splits["train"].batch([3]).source.ids.shape == (1, 201)
        assert pa.total_allocated_bytes() - before < 100 * lines  # they have 1000 bytes each
