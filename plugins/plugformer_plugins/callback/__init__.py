"""Hooks that take part. Manifest entries name their modules; nothing is re-exported."""
