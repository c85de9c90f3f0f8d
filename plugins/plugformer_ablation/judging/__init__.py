"""How results are judged: statistics, verdicts, and what else follows from the scores."""
