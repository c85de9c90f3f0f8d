"""Runs for others: the model card of a run, files without paths of the author's machine, and the Hub.

Importing it imports neither torch nor huggingface_hub.
"""

from plugformer_sharing.card import model_card

__all__ = ["model_card"]
