"""Evaluation: predictions, their scores, and how sure of them we can be."""

from plugformer.evaluation.predictor import GenerativePredictor
from plugformer.evaluation.report import BaselineScores, Report, Score, close

__all__ = ["BaselineScores", "GenerativePredictor", "Report", "Score", "close"]
