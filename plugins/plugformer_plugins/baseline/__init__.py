"""Baselines, one file for each idea. Manifest entries name their modules; nothing is re-exported."""
