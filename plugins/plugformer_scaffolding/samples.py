"""What differs between new plugins of different kinds, besides the component or command itself."""

from collections.abc import Mapping
from dataclasses import dataclass

from plugformer.registry import Kind, Other


@dataclass(frozen=True)
class Sample:
    """The component or command that a new plugin of a kind starts with.

    Attributes:
        summary: What it does, in one sentence.
        source: A link to the paper, or to documentation.
        imports: The distributions that its file imports, besides Plugformer.
        setting: What gives it to the task `dates`, a stand-in for its name included; empty for a command.
    """

    summary: str
    source: str
    imports: tuple[str, ...]
    setting: str


_MODULE = ("jaxtyping", "pydantic", "torch")

SAMPLES: Mapping[Kind | Other, Sample] = {
    Kind.TASK_TYPE: Sample(
        "A text that answers a text.",
        "https://arxiv.org/abs/1409.3215",
        ("pydantic",),
        "type=new_component",
    ),
    Kind.ARCHITECTURE: Sample(
        "An encoder reads the input, a decoder continues the output with it in view.",
        "https://arxiv.org/abs/1706.03762",
        ("jaxtyping", "numpy", "torch"),
        "model.architecture=new_component",
    ),
    Kind.TOKENIZER: Sample(
        "One token for each character that occurs often enough.",
        "https://huggingface.co/docs/tokenizers/api/models",
        ("pydantic", "tokenizers"),
        "tokenizer=new_component",
    ),
    Kind.POSITION: Sample(
        "Sines and cosines of geometrically growing wavelengths, added to the embeddings.",
        "https://arxiv.org/abs/1706.03762",
        _MODULE,
        "model.position=new_component",
    ),
    Kind.ATTENTION: Sample(
        "Multi-head attention.",
        "https://arxiv.org/abs/1706.03762",
        _MODULE,
        "model.attention=new_component",
    ),
    Kind.FEED_FORWARD: Sample(
        "Two linear maps with a rectified linear unit between.",
        "https://arxiv.org/abs/1706.03762",
        _MODULE,
        "model.feed_forward=new_component",
    ),
    Kind.NORM: Sample(
        "Root mean square normalisation.",
        "https://arxiv.org/abs/1910.07467",
        _MODULE,
        "model.norm=new_component",
    ),
    Kind.RESIDUAL: Sample(
        "Pre-norm with a learned number for each sublayer.",
        "https://arxiv.org/abs/2002.10444",
        _MODULE,
        "model.residual=new_component",
    ),
    Kind.HEAD: Sample(
        "The next token at every position.",
        "https://arxiv.org/abs/1608.05859",
        _MODULE,
        "model.head=new_component",
    ),
    Kind.INITIALIZATION: Sample(
        "Every matrix normal, with a deviation by its number of inputs.",
        "https://arxiv.org/abs/1502.01852",
        _MODULE,
        "model.initialization=new_component",
    ),
    Kind.DATA: Sample(
        "Random sequences of numbers to be reversed.",
        "https://huggingface.co/docs/datasets/create_dataset",
        ("datasets", "pydantic"),
        "data=new_component",
    ),
    Kind.METRIC: Sample(
        "The share of outputs that equal one of their references, letter case aside.",
        "https://arxiv.org/abs/1606.05250",
        ("jaxtyping", "numpy", "pydantic"),
        "evaluation.metrics=[exact_match,new_component]",
    ),
    Kind.SCHEDULE: Sample(
        "A straight line from the full learning rate to none, or to a share of it.",
        "https://docs.pytorch.org/docs/stable/generated/torch.optim.lr_scheduler.LinearLR.html",
        ("pydantic",),
        "training.schedule=new_component",
    ),
    Kind.OPTIMIZER: Sample(
        "Stochastic gradient descent with momentum.",
        "https://proceedings.mlr.press/v28/sutskever13.html",
        ("pydantic", "torch"),
        "training.optimizer=new_component",
    ),
    Kind.DECODING: Sample(
        "Always takes the most probable token.",
        "https://docs.pytorch.org/docs/stable/generated/torch.argmax.html",
        (),
        "decoding=new_component",
    ),
    Kind.HOOK: Sample(
        "Noise on the gradients, less at each update.",
        "https://arxiv.org/abs/1511.06807",
        ("pydantic", "torch"),
        "training.hooks=[new_component]",
    ),
    Other.COMMAND: Sample(
        "How many parameters each part of a trained model has.",
        "",
        ("typer",),
        "",
    ),
}
