"""Metrics, one file for each family."""
