"""Evaluation: predictions, their scores, and how sure of them we can be."""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.evaluation.evaluator import measure
    from plugformer.evaluation.predictor import GenerativePredictor
    from plugformer.evaluation.report import Report, Score

__all__ = ["GenerativePredictor", "Report", "Score", "measure"]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
