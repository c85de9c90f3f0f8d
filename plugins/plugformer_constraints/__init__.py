"""Patterns of outputs: regular expressions that every output of a model matches as a whole.

Reading order: pattern (the automaton over bytes), automaton (that over tokens), spelling (from one to the
other), hooks.
"""
