"""The `couplets` task."""
