"""Models without a task: the same as those of tasks, and errors that name the setting."""

import numpy
import pytest
import torch

import plugformer
from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.experiment import Experiment
from plugformer.interfaces import Level
from plugformer.model import Sizes, build
from plugformer_plugins.attention.grouped import MultiHeadAttention

TAGGER = {"architecture": "encoder-only", "level": "token"}
SMALL = {"width": 16, "heads": 2, "layers": 1, "ffn_width": 32}


class Mine(MultiHeadAttention):
    """An attention of this session."""


@pytest.mark.parametrize(
    ("task", "level"),
    [("dates", None), ("brackets", None), ("ag-news", "sequence"), ("names", "token")],
)
def test_a_model_from_python_equals_that_of_a_task(registry, task, level):
    overrides = ["model.attention={name: gqa, kv_heads: 2}", "model.layers=2", "training.seed=3"]
    from_yaml = resolve(task, overrides, registry).task
    expected = build(Experiment.of(from_yaml, registry).spec, Sizes(12, 12))
    settings = from_yaml.model.model_dump(exclude_unset=True)
    model = plugformer.create_model(vocabulary=12, outputs=12, level=level, seed=3, **settings)
    assert model.parts == expected.parts
    assert list(model.state_dict()) == list(expected.state_dict())
    for name, value in expected.state_dict().items():
        assert torch.equal(model.state_dict()[name], value), name


@pytest.mark.parametrize(
    "attention", [Mine, (Mine, {"bias": True}), {"name": "mine", "bias": True}, "session:mine"]
)
def test_a_class_is_a_component(attention):
    model = plugformer.create_model(
        "encoder-decoder",
        vocabulary=9,
        attention=attention,
        components={"attention": {"mine": Mine}},
        **SMALL,
    )
    assert {type(layer.attention) for layer in (*model.encoder.layers, *model.decoder.layers)} == {Mine}


@pytest.mark.parametrize(
    ("architecture", "level", "examples", "targets"),
    [
        ("encoder-decoder", Level.NEXT_TOKEN, {"inputs": [[5, 6], [5]], "outputs": [[4], [7, 8]]}, 5),
        ("decoder-only", Level.NEXT_TOKEN, {"outputs": [[4], [7, 8]]}, 5),
        ("encoder-only", Level.TOKEN, {"inputs": [[5, 6], [5]], "targets": [[0, None], [2]]}, 2),
        ("encoder-only", Level.SEQUENCE, {"inputs": [[5, 6], [5]], "targets": [0, 2]}, 2),
    ],
)
def test_lists_of_token_ids_become_a_batch(architecture, level, examples, targets):
    model = plugformer.create_model(architecture, vocabulary=9, outputs=3, level=level, **SMALL)
    loss = model(model.batch(**examples))
    assert loss.targets == targets
    (loss.total / loss.targets + loss.auxiliary).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


@pytest.mark.parametrize(
    ("settings", "error", "found"),
    [
        ({"heads": 3}, ConfigurationError, r"^attention: 3 heads"),
        ({"attention": "mhaa"}, RegistryError, r"mhaa.*did you mean 'mha'"),
        ({"level": "tokn"}, ConfigurationError, r"tokn"),
        (TAGGER | {"level": None}, ConfigurationError, r"level: expected sequence or token, found None$"),
        (TAGGER | {"level": "vector"}, ConfigurationError, r"level: .* found 'vector'; vectors need a task"),
        (TAGGER, ConfigurationError, r"outputs: "),
        ({"head": "classifier"}, ConfigurationError, r"head 'classifier'.*sequence"),
        ({"vocabulary": {"source": 9}}, ConfigurationError, r"vocabulary: .*9"),
        ({"vocabulary": {"source": 4, "target": 9}}, ConfigurationError, r"vocabulary: .* found 4"),
        ({"vocabulary": 3}, ConfigurationError, r"vocabulary: .* found 3"),
        (TAGGER | {"outputs": 0}, ConfigurationError, r"outputs: .* found 0"),
        ({"device": "gpu"}, ConfigurationError, r"no device 'gpu'"),
        ({"seed": "x"}, ConfigurationError, r"seed: .* found 'x'"),
    ],
    ids=str,
)
def test_a_wrong_setting_is_named(settings, error, found):
    with pytest.raises(error, match=found):
        plugformer.create_model(**{"architecture": "encoder-decoder", "vocabulary": 9, **SMALL, **settings})


@pytest.mark.parametrize(
    ("examples", "error", "found"),
    [
        ({"inputs": [[5], [0]]}, ConfigurationError, "token id 0;"),
        ({"inputs": [[9]]}, ConfigurationError, "token id 9;"),
        ({"outputs": [[5]]}, ConfigurationError, r"inputs"),
        ({"inputs": [[5]], "outputs": [[5], [4]]}, ConfigurationError, "'inputs': 1, 'outputs': 2"),
        ({"inputs": [[5], [6]], "outputs": [[5]]}, ConfigurationError, "'inputs': 2, 'outputs': 1"),
    ],
)
def test_wrong_examples_are_refused(examples, error, found):
    model = plugformer.create_model("encoder-decoder", vocabulary=9, **SMALL)
    with pytest.raises(error, match=found):
        model.batch(**examples)


@pytest.mark.parametrize(
    ("level", "targets", "found"),
    [
        ("sequence", [0], "'inputs': 2, 'targets': 1"),
        ("token", [[0, 1], [1, 1]], "example 1 has 2 targets for 1 input tokens"),
        ("token", [[0], [1]], "example 0 has 1 targets for 2 input tokens"),
        ("token", [[0, -100], [1]], "target -100; expected 0 to 2, or None for a token"),
        ("sequence", [0, -100], "target -100; expected 0 to 2$"),
        ("sequence", [0, 3], "target 3; expected 0 to 2$"),
        ("sequence", [0.0, 1.0], r"target 0\.0; expected 0 to 2$"),
        ("sequence", [0, None], "target None; expected 0 to 2$"),
    ],
)
def test_wrong_targets_are_refused(level, targets, found):
    model = plugformer.create_model("encoder-only", level=level, vocabulary=9, outputs=3, **SMALL)
    with pytest.raises(ConfigurationError, match=found):
        model.batch(inputs=[[5, 6], [7]], targets=targets)


@pytest.mark.parametrize(("head", "targets"), [("regressor", [1, 5]), ("multi_label", [[1, 0], [1, 1]])])
def test_whole_numbers_are_targets_of_heads_that_measure(head, targets):
    model = plugformer.create_model(
        "encoder-only", level="sequence", head=head, vocabulary=9, outputs=len(numpy.shape(targets)), **SMALL
    ).eval()
    losses = [
        model(model.batch(inputs=[[5, 6], [7]], targets=numbers)).total.item()
        for numbers in (targets, numpy.array(targets, dtype=float).tolist())
    ]
    assert losses[0] == losses[1]


@pytest.mark.parametrize(("architecture", "level"), [("encoder-decoder", None), ("encoder-only", "sequence")])
def test_questions_have_no_loss(architecture, level):
    model = plugformer.create_model(architecture, level=level, vocabulary=9, outputs=3, **SMALL)
    with pytest.raises(ConfigurationError, match="needs outputs or targets"):
        model(model.batch(inputs=[[5, 6]]))


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({"initialize_from": {"transformers": "nowhere"}}, "initialize_from: a training loads"),
        ({"encoder": {"attention": "gqa"}}, "encoder: architecture 'decoder-only' has none"),
    ],
)
def test_a_setting_that_would_do_nothing_is_refused(settings, found):
    with pytest.raises(ConfigurationError, match=found):
        plugformer.create_model(
            "decoder-only", vocabulary=numpy.int64(9), width=8, heads=2, layers=1, **settings
        )
