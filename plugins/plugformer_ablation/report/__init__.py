"""The report of a study: a table for the terminal, one page with all figures, and files for other programs.

Reading order: text, figures, writing.
"""
