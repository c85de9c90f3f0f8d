"""Whether arms differ: an interval over seeds and test examples, and the verdict that follows from it.

Plain numpy arrays in, no study and no files. Reading order: student, bootstrap, contrast, judgement, summary.
"""
