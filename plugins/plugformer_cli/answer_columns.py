"""The columns of files of answers."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from plugformer.errors import PlugformerError
from plugformer_cli.answer_files import Row
from plugformer_cli.questions import Question
from plugformer_cli.records import improbable

if TYPE_CHECKING:
    from plugformer.interfaces import Prediction, TaskType


@dataclass(frozen=True)
class Columns:
    """The columns of a file of answers: those of the questions, then those of the answers.

    A column of the questions whose name an answer needs is called `input_NAME`.

    Attributes:
        answer: Of `prediction`, `probability`, `alternatives`, `probabilities`, `spans` and `error` those
            that answers have, `prediction` and `error` at least.
        task_type: Of the model.
        threshold: Answers with a lower probability are omitted.
    """

    answer: Sequence[str]
    task_type: "TaskType"
    threshold: float

    def names(self, cells: Iterable[str]) -> list[str]:
        """Returns the names of all columns, given those of the questions."""
        return [*(self._renamed(name) for name in cells), *self.answer]

    def row(self, question: Question, answer: "Prediction | PlugformerError") -> Row:
        """Returns the cells of a row."""
        row: dict[str, Any] = {self._renamed(name): cell for name, cell in question.cells.items()}
        row |= dict.fromkeys(self.answer)
        if isinstance(answer, PlugformerError):
            return row | {"error": str(answer)}
        row["error"] = improbable(answer, self.threshold) or None
        if row["error"] is None:
            row["prediction"] = answer.output
            if "spans" in row:
                asked: Any = question.asked
                example = self.task_type.example_from_text(asked) if isinstance(asked, str) else asked
                row["spans"] = self.task_type.spans(example, answer.output)
        if "probability" in row:
            row["probability"] = answer.probability
        if "alternatives" in row:
            row["alternatives"] = [
                {"prediction": other.output, "probability": other.probability}
                for other in answer.alternatives
                if not improbable(other, self.threshold)
            ]
        if "probabilities" in row:
            row["probabilities"] = answer.probabilities
        return row

    def _renamed(self, name: str) -> str:
        return f"input_{name}" if name in self.answer else name
