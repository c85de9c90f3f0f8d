"""The `ud-ewt` task."""
