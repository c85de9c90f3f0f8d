"""Hooks that take part. Nothing is re-exported: importing one, by its manifest entry, imports no other."""
