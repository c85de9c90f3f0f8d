"""Patterns of outputs: regular expressions that every output of a model matches as a whole.

Reading order: pattern (the automaton over bytes), spelling (that over tokens), hooks.
"""
