"""Residual connections whose sublayers take some tokens."""

import torch

from plugformer_plugins.residual.norms import PreNorm


class ByToken(PreNorm):
    """Sublayers take the tokens whose first coordinate is positive."""

    takes = "by token"

    def forward(self, x, sublayers):
        tokens = self.chosen(x[..., 0], next(iter(sublayers.values())).real)
        for name, sublayer in sublayers.items():
            x = sublayer.added(x, self.norms[name](x), tokens, most=self.most(x.shape[1]))
        return x

    def chosen(self, scores, real):
        return scores > 0

    def most(self, length):
        return None


class BySequence(ByToken):
    """Sublayers take the better half of the real tokens of each sequence."""

    takes = "by sequence"

    def chosen(self, scores, real):
        ranks = scores.masked_fill(~real, -torch.inf).argsort(dim=1, descending=True, stable=True).argsort(1)
        return ranks < (real.sum(1, keepdim=True) / 2).ceil()

    def most(self, length):
        return -(-length // 2)
