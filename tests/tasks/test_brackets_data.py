"""Balanced brackets: that they are, how deep they are, and how often each choice is made."""

from collections import Counter
from itertools import pairwise
from typing import Any

import pytest
from datasets import DatasetDict

from plugformer.registry import Registry
from plugformer_plugins.task_type.language_modelling import LanguageModelling


def load(**options: Any) -> DatasetDict:
    create = Registry.discover().create
    component = create("data", "brackets", **{"size": 2000, "held_out": 50, **options})
    data: DatasetDict = component.load(LanguageModelling().columns)
    return data


def depths(text: str) -> list[int]:
    """Returns how many brackets are open after each; fails where one is not closed by its own."""
    opened, found = [], []
    for bracket in text:
        if bracket in "([{<":
            opened.append(bracket)
        else:
            assert opened.pop() + bracket in ("()", "[]", "{}", "<>")
        found.append(len(opened))
    assert not opened
    return found


@pytest.mark.parametrize(("kinds", "depth"), [(1, 1), (2, 3), (4, 4)])
def test_brackets_are_closed_by_their_own_and_no_deeper_than_asked(kinds: int, depth: int) -> None:
    data = load(kinds=kinds, depth=depth)
    texts = [text for split in data.values() for text in split["text"]]
    assert max(max(depths(text)) for text in texts) == depth
    assert {bracket for text in texts for bracket in text} == set("()[]{}<>"[: 2 * kinds])


def test_choices_are_made_as_often_as_documented() -> None:
    """Of those between opening and closing 0.4 open, after a bracket that leaves none open 0.5 end."""
    opens, ends = Counter[bool](), Counter[bool]()
    for text in load(depth=4)["train"]["text"]:
        before = [0, *depths(text)]
        opens.update(now > then for then, now in pairwise(before) if 0 < then < 4)
        ends.update([False] * (before[1:-1].count(0)) + [True])
    assert opens[True] / opens.total() == pytest.approx(0.4, abs=0.02)
    assert ends[True] / ends.total() == pytest.approx(0.5, abs=0.02)
