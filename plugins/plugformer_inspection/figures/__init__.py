"""Figures with matplotlib: its object-oriented interface alone, no global state, no window."""
