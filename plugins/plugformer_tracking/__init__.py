"""Experiment trackers: TensorBoard, Weights & Biases and MLflow, through the trackers of Accelerate.

`metrics.jsonl` of a run is what they are told, line by line, while it is trained or afterwards.
"""
