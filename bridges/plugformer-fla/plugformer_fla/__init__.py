"""Linear attentions of flash-linear-attention for Plugformer."""
