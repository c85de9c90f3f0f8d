"""Schemes of initial values. Nothing is re-exported: importing one imports no other."""
