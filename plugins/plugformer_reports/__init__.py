"""What reports are made of: figures in one style, the fonts that they need, and HTML pages without a network.

For packages that draw, such as those of `plugformer plot` and `plugformer ablate`. Knows neither runs nor
models.
"""
