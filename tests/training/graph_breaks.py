"""Compiles layers that have every pair of built-in parts among them, in a process that checks no shapes.

Fails with torch's error at the first graph break.
"""

from itertools import combinations, product

import torch

from plugformer import components, create_model
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
