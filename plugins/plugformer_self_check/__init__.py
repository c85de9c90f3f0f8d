"""The self-check of a saved model: some answers, each computed in two ways."""
