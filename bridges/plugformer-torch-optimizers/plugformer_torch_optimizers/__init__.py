"""Optimizers of pytorch-optimizer, schedulefree and prodigyopt for Plugformer."""
