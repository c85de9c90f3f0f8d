"""Language modelling: balanced brackets of several kinds."""
