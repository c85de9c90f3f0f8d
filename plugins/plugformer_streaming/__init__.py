"""Training with `data.streaming`: examples are read during training, in blocks that are shuffled as a whole.

Reading order: examples, batches, hooks.
"""
