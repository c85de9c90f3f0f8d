"""The self-check of a saved model: some answers, each computed in two ways.

Reading order: hooks (which ways are compared), agreement (how far two ways are apart).
"""
