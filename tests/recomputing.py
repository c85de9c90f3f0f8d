"""Decoding that computes every token anew at every step: slow, and what cached decoding must agree with."""

from dataclasses import replace

import torch

from plugformer.interfaces import Session, Tokens


class RecomputingSession(Session):
    """Keeps the tokens, and nothing that was computed from them."""

    def __init__(self, model, batch, *arguments):
        super().__init__(model, batch, *arguments)
        self._batch, self._prefix = batch, self.sentences[:, None][:, :0]

    def _advance(self, tokens):
        self._prefix = torch.cat([self._prefix, tokens[:, None]], dim=1)
        self._past, _ = self.model.begin(self._batch)
        real = torch.ones_like(self._prefix, dtype=torch.bool)
        return self.model.step(Tokens(self._prefix, real, full=True), self._past)[:, -1]

    def select(self, rows, sentences=None):
        super().select(rows, sentences)
        self._prefix = self._prefix.index_select(0, rows)
        batch = self._batch
        self._batch = replace(
            batch,
            source=selected(batch.source, rows),
            target=selected(batch.target, rows),
            given=None if batch.given is None else batch.given[rows],
            rows=[batch.rows[row] for row in rows.tolist()] if batch.rows else [],
        )


def selected(tokens, rows):
    """Returns some rows of the tokens of a stack, if it has any."""
    return Tokens(tokens.ids[rows], tokens.mask[rows], tokens.full) if len(tokens.ids) else tokens
