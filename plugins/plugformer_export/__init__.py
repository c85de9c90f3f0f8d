"""Trained models in the formats of other engines, each compared with the original before it is written."""
