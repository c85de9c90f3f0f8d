"""Probes: small generated tasks that each ask for one ability of a model."""
