"""The `tatoeba` tasks."""
