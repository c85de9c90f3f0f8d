"""TensorBoard, Weights & Biases and MLflow, from the metrics of a run."""
