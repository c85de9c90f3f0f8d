"""Whether arms differ: tests over seeds and over test examples, and a verdict that has to stand on both.

Plain numpy arrays in, no study and no files. Reading order: student, bootstrap, contrast, judgement, summary.
"""
