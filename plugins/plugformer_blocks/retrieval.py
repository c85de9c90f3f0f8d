"""Finding texts by their vectors."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces import Prediction

_QUESTIONS = 1024


def nearest_texts(
    questions: Float[Tensor, "questions size"],
    vectors: Float[Tensor, "texts size"],
    texts: Sequence[str],
    n_best: int = 1,
) -> list[Prediction]:
    """Returns for each question the texts whose vectors have the largest products with its own.

    Args:
        questions: The questions' vectors.
        vectors: The texts' vectors.
        texts: What is found.
        n_best: Number of texts for each question; the first one has the others as `alternatives`.
    """
    answers = []
    for part in questions.split(_QUESTIONS):  # the products of all would need much memory
        found = (part @ vectors.T).topk(min(n_best, len(texts))).indices.tolist()
        answers += [Prediction.of([Prediction(texts[place]) for place in places]) for places in found]
    return answers
