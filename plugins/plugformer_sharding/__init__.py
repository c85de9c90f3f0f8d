"""Training with `training.shard`: each process keeps a shard of every parameter, gradient and moment.

Reading order: sharded, hooks.
"""
