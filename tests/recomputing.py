"""Decoding that computes every token anew at every step: slow, and what cached decoding must agree with."""

import torch

from plugformer.interfaces import Padding, Session, Tokens


class RecomputingSession(Session):
    """Keeps the tokens, and nothing that was computed from them."""

    def _start(self, batch):
        self._batch = batch
        last = super()._start(batch)
        self._prefix = last[:, None][:, :0]
        return last

    def _advance(self, tokens):
        self._prefix = torch.cat([self._prefix, tokens[:, None]], dim=1)
        self._past, _ = self.model.begin(self._batch)
        real = torch.ones_like(self._prefix, dtype=torch.bool)
        return self.model.step(Tokens(self._prefix, real, Padding.NONE), self._past)[:, -1]

    def select(self, rows):
        super().select(rows)
        self._prefix = self._prefix.index_select(0, rows)
        self._batch = self._batch.questions(rows)
