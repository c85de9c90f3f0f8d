"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, each through its own library.

`metrics.jsonl` of a run is what they are told, line by line, while it is trained or afterwards.
"""
