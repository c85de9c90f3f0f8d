"""What reports share: figures in one style with fonts for every script, and HTML pages that need no network.

`plugformer plot` and `plugformer ablate` draw with it. It knows neither runs nor models.
"""
