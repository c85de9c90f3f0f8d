"""Attention maps as data, which the page draws."""

from typing import Any

from plugformer_inspection import inspect_attention
from plugformer_serving.answering import Question, ServedModel

MAX_TOKENS = 64
"""Tokens of either axis that are sent."""


def attention_maps(model: ServedModel, question: Question) -> dict[str, Any]:
    """Returns a model's answer to a question with the weights of each attention that has some.

    Each map has the tokens that read (`query`), those that are read (`key`), and `weights` by head: lists of
    rows with three decimals.
    """
    inspection = inspect_attention(model, question)
    maps = []
    for view in inspection.attentions:
        if view.weights is None:
            continue
        stack, layer, kind = view.place
        weights = view.weights[:, :MAX_TOKENS, :MAX_TOKENS]
        maps.append(
            {
                "name": f"{stack} {kind}-attention, layer {layer}",
                "query": view.query[:MAX_TOKENS],
                "key": view.key[:MAX_TOKENS],
                "weights": [
                    [[round(weight, 3) for weight in row] for row in head] for head in weights.tolist()
                ],
            }
        )
    return {"input": question, "output": inspection.output, "maps": maps}
