"""Evaluation: predictions, and their scores by the metrics of a task, with intervals."""

from plugformer.evaluation.predictor import GenerativePredictor
from plugformer.evaluation.report import BaselineScores, Report, Score, close

__all__ = ["BaselineScores", "GenerativePredictor", "Report", "Score", "close"]
