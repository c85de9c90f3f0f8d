"""The JSON record of an answer, which `predict --json` prints."""

from typing import TYPE_CHECKING, Any

from plugformer.errors import PlugformerError

if TYPE_CHECKING:
    from plugformer.interfaces import Prediction


def record(text: Any, answer: "Prediction | PlugformerError", *, threshold: float = 0.0) -> dict[str, Any]:
    """Returns what `predict --json` prints of a text's answer.

    It has `input`, `output` and `score`, the natural logarithm of the output's probability; where they apply
    `truncated`, `unknown`, `alternatives` and `probabilities` of `Prediction`. A text without an answer has
    an `output` of None, and says why in `error`.

    Args:
        text: The input as the user gave it: a text, or values by column.
        answer: Its answer, or why it has none.
        threshold: Answers with a lower probability are omitted.
    """
    if isinstance(answer, PlugformerError):
        return {"input": text, "output": None, "error": str(answer)}
    found: dict[str, Any] = {"input": text, "output": answer.output, "score": answer.score}
    if error := improbable(answer, threshold):
        found |= {"output": None, "error": error}
    if answer.truncated:
        found["truncated"] = True
    if answer.unknown:
        found["unknown"] = list(answer.unknown)
    probable = [other for other in answer.alternatives if not improbable(other, threshold)]
    if probable:
        found["alternatives"] = [{"output": other.output, "score": other.score} for other in probable]
    if answer.probabilities is not None:
        found["probabilities"] = answer.probabilities
    return found


def improbable(answer: "Prediction", threshold: float) -> str:
    """Returns why an answer is omitted; an empty text if it is not."""
    if answer.probability is None or answer.probability >= threshold:
        return ""
    return f"its probability {answer.probability:.4g} is below {threshold:g}"
