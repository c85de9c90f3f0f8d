"""The `shakespeare` task."""
