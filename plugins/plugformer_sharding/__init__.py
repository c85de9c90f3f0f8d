"""Training with `training.shard`: each process keeps a part of every parameter, gradient and moment.

Reading order: sharded, hooks.
"""
