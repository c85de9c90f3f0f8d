"""Attentions, feed-forward networks, norms and positions of x-transformers for Plugformer."""
