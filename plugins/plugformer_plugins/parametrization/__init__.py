"""Parametrizations. Manifest entries name their modules; nothing is re-exported."""
