"""Tagging: the names of people and places in generated sentences."""
