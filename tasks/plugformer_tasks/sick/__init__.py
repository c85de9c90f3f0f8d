"""The `sick-relatedness` and `sick-entailment` tasks."""
