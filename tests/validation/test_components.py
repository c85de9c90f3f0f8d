"""Parts that do not fit each other are refused before any data is read, where somebody wrote them."""

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError, RegistryError
from plugformer.model import Sizes, build
from plugformer.validation import validate

TASK = """\
type: {type}
data: {{name: dates}}
tokenizer: characters
model:
  architecture: {architecture}
  width: {width}
  heads: {heads}
  head: {head}
  {more}
"""
PARTS = '''
import torch
from torch import nn

from plugformer.interfaces import (
    Attention, FeedForward, Head, Level, PositionalEncoding
)


class Linear(Attention):
    """Linear attention (Katharopoulos et al. 2020), which has no scores that a bias could be added to."""

    def __init__(self, model):
        super().__init__()
        self.maps = nn.ModuleList(nn.Linear(model.width, model.width) for _ in range(3))

    def forward(self, x, context):
        memory = context.memory if context.cross else x
        key = context.key.rotate(self.maps[0](memory)[:, None])[:, 0].exp()
        query = context.rotate(self.maps[2](x)[:, None])[:, 0].exp()
        products = key.transpose(1, 2) @ self.maps[1](memory)
        return query @ products / (query @ key.sum(1)[..., None])


class Alternating(Linear):
    """Rotates queries and keys in every other layer alone."""

    def __init__(self, model):
        super().__init__(model)
        self.rotates = model.place.layer % 2 == 0

    def forward(self, x, context):
        return super().forward(x, context) if self.rotates else x


class Answering(PositionalEncoding):
    """A bias that grows with the query and with distance."""

    def __init__(self, model):
        super().__init__()

    def content_bias(self, query_heads, key_heads, query, key):
        far = (query.index[:, None, :, None] - key.index[:, None, None, :]).abs()
        return query_heads.mean(-1, keepdim=True) * far


class Broken(Linear):
    def forward(self, x, context):
        return x @ x


class Hidden(FeedForward):
    def __init__(self, model):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(model.width))

    def forward(self, x, context):
        return x * self.scale


class Raises(FeedForward):
    def __init__(self, model, *, leave: bool = False):
        super().__init__()
        self.leave = leave

    def forward(self, x, context):
        raise SystemExit(0) if self.leave else KeyError("missing")


class Wide(Raises):
    def forward(self, x, context):
        return torch.cat([x, x], dim=-1)


class Doubled(Raises):
    def forward(self, x, context):
        return x.double()


class Routed(Raises):
    """Depends on values, which tensors without memory do not have."""

    def forward(self, x, context):
        return x * x.sum().item()


class Summed(Raises):
    """Needs values while it is constructed."""

    def __init__(self, model):
        super().__init__(model)
        if torch.arange(model.width).sum().item() == 0:
            raise ValueError("a width of 1")

    def forward(self, x, context):
        return x


class Increasing(Raises):
    """Needs the values that it has been constructed with."""

    def __init__(self, model):
        super().__init__(model)
        self.register_buffer("table", torch.arange(model.width))

    def forward(self, x, context):
        if not (self.table.diff() > 0).all():
            raise ValueError("not increasing")
        return x


class Unreachable(Raises):
    """Raises in another package before a line of its own runs."""

    forward = torch.mm


class Evil(Raises):
    def __getattr__(self, name):
        raise ValueError("not mine")


class Unnamed(FeedForward):
    """Its maps have other names than those that schemes of initial values look for."""

    def __init__(self, model):
        super().__init__()
        self.map = nn.Linear(model.width, model.width)

    def forward(self, x, context):
        return self.map(x)


class Turned(PositionalEncoding):
    def __init__(self, model):
        super().__init__()

    def rotate(self, heads, positions):
        return heads[..., :1]


class Pooled(Head):
    levels = frozenset(Level)

    def __init__(self, model):
        super().__init__()
        self.outputs = model.outputs

    def logits(self, hidden, context):
        return hidden[..., : self.outputs]

    def loss(self, hidden, targets, context):
        return 1 / 0


class Generous(Pooled):
    """One score too many, with a loss all the same."""

    def logits(self, hidden, context):
        return hidden[..., : self.outputs + 1]

    loss = Head.loss

'''
MANIFEST = """\
components:
  attention:
    linear: {class: "parts_of_tests:Linear"}
    alternating: {class: "parts_of_tests:Alternating"}
    broken: {class: "parts_of_tests:Broken"}
  feed_forward:
    hidden: {class: "parts_of_tests:Hidden"}
    raises: {class: "parts_of_tests:Raises"}
    wide: {class: "parts_of_tests:Wide"}
    routed: {class: "parts_of_tests:Routed"}
    summed: {class: "parts_of_tests:Summed"}
    increasing: {class: "parts_of_tests:Increasing"}
    doubled: {class: "parts_of_tests:Doubled"}
    evil: {class: "parts_of_tests:Evil"}
    unreachable: {class: "parts_of_tests:Unreachable"}
    unnamed: {class: "parts_of_tests:Unnamed"}
  position:
    turned: {class: "parts_of_tests:Turned"}
    answering: {class: "parts_of_tests:Answering"}
  head:
    pooled: {class: "parts_of_tests:Pooled"}
    generous: {class: "parts_of_tests:Generous"}
"""


@pytest.fixture(scope="session")
def parts(registry, tmp_path_factory):
    folder = tmp_path_factory.mktemp("parts")
    (folder / "parts_of_tests.py").write_text(PARTS)
    (folder / "registry.yaml").write_text(MANIFEST)
    return registry.with_local(folder / "registry.yaml")


@pytest.fixture
def check(parts, tmp_path, monkeypatch):
    """Validates a small task with one more line in `model:`, which is line 9, and some overrides."""
    monkeypatch.chdir(tmp_path)

    def check(more="", *overrides, type="sequence-to-sequence", head="language_model", width=16, heads=2):  # noqa: A002 (the task file's word)
        architecture = "encoder-decoder" if type == "sequence-to-sequence" else "encoder-only"
        (tmp_path / "task.yaml").write_text(
            TASK.format(type=type, architecture=architecture, head=head, width=width, heads=heads, more=more)
        )
        return validate(resolve("task.yaml", list(overrides), parts))

    return check


def refused(check, *arguments, **options) -> str:
    with pytest.raises(ConfigurationError) as caught:
        check(*arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize(
    ("position", "slot"), [("alibi", "bias"), ("t5", "bias"), ("answering", "content_bias")]
)
def test_a_bias_that_attention_never_reads(check, position, slot):
    message = refused(check, "attention: linear", f"model.position={position}")
    assert f"--set model.position={position}  model.position: position '{position}' (" in message
    assert f"works through `{slot}`" in message
    assert "which attention 'linear' (local) never reads here" in message
    assert message.count("\n") == 0, "said once, though it holds in every layer of both stacks"


@pytest.mark.parametrize("attention", ["mha", "gqa", "mqa", "mla"])
def test_a_bias_from_content_is_read_by_every_attention_with_a_softmax(check, attention):
    check(f"attention: {attention}", "model.position=answering")


def test_the_place_is_the_line_that_wrote_the_position(check):
    message = refused(check, "position: alibi", "model.encoder.attention=linear")
    assert message.startswith("task.yaml:9:13  model.position: ")


def test_a_single_layer_is_found(check):
    message = refused(check, "encoder: {per_layer: {1: {attention: linear}}}", "model.position=alibi")
    assert (
        "position 'alibi' (plugformer 0.1.0) works through `bias`, which attention 'linear' (local) never "
        "reads" in message
    )
    check("decoder: {cross_attention: {attention: linear}}", "model.position=alibi")


def test_an_attention_may_read_positions_in_some_layers(check):
    check("attention: alternating", "model.position=rope", "model.layers=2")


@pytest.mark.parametrize("position", ["learned", "sinusoidal"])
def test_embedded_positions_in_cross_attention(check, position):
    message = refused(check, f"decoder: {{cross_attention: {{position: {position}}}}}")
    assert message.startswith("task.yaml:9:41  model.decoder.cross_attention.position: ")
    assert f"position '{position}' (plugformer 0.1.0) works through `embed`" in message


def test_rotary_positions_on_an_odd_head_width(check):
    message = refused(check, "position: rope", width=10)
    assert message.startswith("task.yaml:9:13  model.position: ")
    assert (
        "odd width 5; expected an even head width, 6 for example: change model.width or model.heads"
        in message
    )


def test_heads_that_do_not_divide_the_width(check):
    message = refused(check, "attention: gqa", heads=3)
    assert message.startswith("task.yaml:9:14  model.attention: 3 heads do not divide the width 16")


def test_parameters_without_initial_values(check):
    message = refused(check, "feed_forward: hidden")
    assert message.startswith("task.yaml:9:17  model.feed_forward: ")
    assert "parts_of_tests:Hidden) holds the parameters scale but has no reset_parameters()" in message


def test_an_attention_that_raises_is_named(check):
    message = refused(check, "attention: broken")
    assert message.startswith(
        "task.yaml:9:14  model.attention: attention 'broken' (local) failed: RuntimeError"
    )
    assert "parts_of_tests.py:" in message.splitlines()[-1]


def test_all_problems_come_together(check):
    message = refused(
        check, "attention: {name: gqa, kv_heads: 3}", "training.schedule=constant", heads=4, head="classifier"
    )
    assert [line.split("  ")[1].split(":")[0] for line in message.splitlines()] == [
        "model.head",
        "model.attention",
    ]


def test_all_parts_that_refuse_come_together(check):
    message = refused(check, "attention: {name: gqa, kv_heads: 3}", "model.feed_forward=hidden")
    parts = {line.split("  ")[1].split(":")[0] for line in message.splitlines() if "  model." in line}
    assert parts == {"model.attention", "model.feed_forward"}


def test_nothing_is_read(check, monkeypatch):
    monkeypatch.setattr("plugformer_tasks.dates.data.Dates.load", lambda *_: pytest.fail("data are read"))
    check("position: rope")


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        (
            "feed_forward: raises",
            "model.feed_forward: feed_forward 'raises' (local) failed: KeyError: 'missing'",
        ),
        ("feed_forward: {name: raises, leave: true}", "feed_forward 'raises' (local) failed: SystemExit: 0"),
        (
            "feed_forward: wide",
            "it returns torch.float32 of shape (2, 4, 32), expected torch.float32 of shape (2, 4, 16)",
        ),
        ("feed_forward: doubled", "it returns torch.float64 of shape (2, 4, 16), expected torch.float32"),
        ("feed_forward: evil", "feed_forward 'evil' (local): constructing it failed: ValueError: not mine"),
        ("position: turned", "parts_of_tests:Turned: it returns torch.float32 of shape (2, 4, 4, 1)"),
        ("head: pooled", "model.head: head 'pooled' (local) failed: ZeroDivisionError: division by zero"),
    ],
)
def test_each_part_runs_once_before_a_run_directory_exists(check, setting, expected):
    more, head = (
        ("", setting.partition(": ")[2]) if setting.startswith("head") else (setting, "language_model")
    )
    assert expected in refused(check, more, head=head)


@pytest.mark.parametrize("type", ["sequence-to-sequence", "classification", "tagging"])
def test_a_head_returns_a_score_for_each_output(check, type):  # noqa: A002 (the task file's word)
    message = refused(check, type=type, head="generous")
    assert "model.head: parts_of_tests:Generous: it returns torch.float32 of shape (2, " in message


def test_an_exception_outside_of_its_package_has_no_place(check):
    assert "raised in" not in refused(check, "feed_forward: unreachable")


class Largest(TorchDispatchMode):
    """Notes the largest tensor that has memory."""

    numbers = 0

    def __torch_dispatch__(self, function, types, arguments=(), keywords=None):
        output = function(*arguments, **(keywords or {}))
        for tensor in output if isinstance(output, tuple | list) else [output]:
            if isinstance(tensor, torch.Tensor) and not tensor.is_meta:
                self.numbers = max(self.numbers, tensor.numel())
        return output


def test_initial_values_that_cannot_be_scaled(check):
    experiment = check("feed_forward: unnamed", "model.residual=deepnorm")
    with pytest.raises(RegistryError, match="Unnamed, which has no matrix called 'down'"):
        build(experiment.spec, Sizes(9, 9))
    build(check("feed_forward: unnamed").spec, Sizes(9, 9))
    check("feed_forward: moe", "model.residual=deepnorm", "model.attention=mla")


def test_a_large_model_is_validated_without_its_memory(check):
    settings = ("model.position=learned", "model.max_length=100000", "model.feed_forward=routed")
    with Largest() as largest:
        check("ffn_width: 65536", *settings, width=32768, heads=8)
    assert 0 < largest.numbers < 2**22


@pytest.mark.parametrize("name", ["summed", "increasing"])
def test_a_part_may_need_values(check, name):
    check(f"feed_forward: {name}")
