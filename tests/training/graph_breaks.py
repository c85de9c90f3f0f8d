"""Compiles layers that have every pair of built-in parts among them, and the loss of every built-in head.

In a process that checks no shapes. Losses are computed as on a GPU, where those of padding are, too.

Fails with torch's error at the first graph break.
"""

from itertools import combinations, product

import torch

from plugformer import components, create, create_model
from plugformer.interfaces import HeadContext, HeadInput, Input, Level, head
from plugformer.model import Layer

PARTS = ("attention", "position", "feed_forward", "norm", "residual")
SIZES = {"vocabulary": 20, "width": 16, "heads": 2, "layers": 1, "max_length": 20}


def models():
    """Yields parts of models that have every pair of parts among them."""
    names = [[(kind, entry.name) for entry in components(kind)] for kind in PARTS]
    missing = {pair for parts in product(*names) for pair in combinations(parts, 2)}
    while missing:
        most = max(product(*names), key=lambda parts: len(missing.intersection(combinations(parts, 2))))
        missing -= {*combinations(most, 2)}
        yield dict(most)


def losses():
    """Yields names of heads, and what their losses are computed from."""
    numbers = {"multi_label": torch.zeros(2, 5), "regressor": torch.zeros(2), "cosine": torch.zeros(2, 1)}
    for name in [entry.name for entry in components("head")]:
        pair = {"inputs": (Input("first"), Input("second"))} if name in {"contrastive", "cosine"} else {}
        part = create("head", name, HeadContext(width=8, heads=1, ffn_width=1, outputs=5, **pair))
        by_token = not part.levels.isdisjoint({Level.TOKEN, Level.NEXT_TOKEN})
        targets = numbers.get(name, torch.zeros((2, 2) if by_token else 2, dtype=torch.int64))
        yield name, part, torch.randn(2, 2, 8, requires_grad=True), targets


if __name__ == "__main__":
    for parts in models():
        torch._dynamo.reset()
        model = create_model("encoder-decoder", dropout=0.1, **SIZES, **parts).train()
        compiled = torch.compile(Layer.compute, dynamic=False, fullgraph=True, backend="aot_eager")
        for layer in model.modules():
            if isinstance(layer, Layer):
                layer.compiled = compiled
        loss = model(model.batch(inputs=[[5, 6, 7], [5]], outputs=[[5, 6], [5]]))
        (loss.total / loss.targets + loss.auxiliary).backward()
        print(*parts.values())  # noqa: T201
    head._places = lambda real: torch.arange(real.numel())
    for name, part, hidden, targets in losses():
        torch._dynamo.reset()
        loss = torch.compile(type(part).loss, dynamic=False, fullgraph=True, backend="aot_eager")
        loss(part, hidden, targets, HeadInput(torch.ones(2, 2, dtype=torch.bool)))[0].backward()
        print(name)  # noqa: T201
