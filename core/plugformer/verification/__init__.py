"""Proof, on a user's own configuration, that a training that was killed and resumed ends like any other."""
