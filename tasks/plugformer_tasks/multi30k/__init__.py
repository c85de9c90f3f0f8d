"""The `multi30k` tasks."""
