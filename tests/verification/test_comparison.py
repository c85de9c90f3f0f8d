"""Where two recordings differ first: written by hand, one fault at a time."""

import json

import pytest

from plugformer_verification.resuming import first_difference

PARTS = ("batches", "learning rate", "loss", "parameters", "optimizer", "generators")


def line(step, segment=0, **changed):
    same = {part: {"a": "1", "b": "2"} for part in PARTS}
    rest = {"attributes": {"net.calls": str(step)}, "outputs": [["net.up", "x"], ["net", "y"]]}
    return {
        "segment": segment,
        "step": step,
        **same,
        **rest,
        **{key.replace("_", " "): changed[key] for key in changed},
    }


@pytest.fixture
def compare(tmp_path):
    def compare(found):
        files = []
        for name, lines in (("expected", map(line, range(1, 7))), ("found", found)):
            files.append(tmp_path / name)
            files[-1].write_text("".join(json.dumps(each) + "\n" for each in lines))
        return first_difference(*files)

    return compare


def test_equal_recordings(compare):
    """A step that was made twice counts twice; the attributes alone are no difference."""
    again = [line(3, segment=1), line(4, segment=1, attributes={"net.calls": "1"})]
    assert compare([*map(line, (1, 2, 3)), *again, line(5, segment=1), line(6, segment=1)]) is None


@pytest.mark.parametrize("part", PARTS)
def test_each_part_is_compared(compare, part):
    found = compare([line(1), line(2, segment=1, **{part: {"a": "1", "b": "3"}})])
    assert (found.step, found.resumed_after, found.part, found.name, found.others) == (2, 1, part, "b", 0)
    assert (found.expected, found.found) == ("2", "3")
    assert found.output == ""
    assert found.attributes == ()


def test_the_first_in_the_order_of_an_update(compare):
    changed = {"generators": {"a": "0", "b": "0"}, "loss": {"a": "0"}}
    found = compare([line(1), line(2, **changed), line(3, batches={})])
    assert (found.step, found.part, found.name, found.others, found.found) == (2, "loss", "a", 1, "0")


def test_a_tensor_too_many(compare):
    found = compare([line(1, optimizer={"a": "1", "b": "2", "c": "3"})])
    assert (found.name, found.expected, found.found) == ("c", "missing", "3")


def test_the_earliest_step_counts(compare):
    """Of the first segment's step 5 and the second's step 4."""
    found = compare([line(5, loss={}), line(4, segment=1, parameters={})])
    assert (found.step, found.resumed_after) == (4, 3)


def test_probable_causes(compare):
    fault = {"attributes": {"net.calls": "1"}, "outputs": [["net.up", "x"], ["net", "z"]]}
    found = compare([line(4, segment=1, loss={}, **fault)])
    assert found.attributes == (("net.calls", "4", "1"),)
    assert found.output == "net"
