"""Schemes of initial values. Manifest entries name their modules; nothing is re-exported."""
