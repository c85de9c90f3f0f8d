"""Always takes the most probable token."""

from plugformer.interfaces import END, Decoding, Hypothesis, Session


class NewComponent(Decoding):
    """The most probable token at each step; a sentence whose token is END leaves the batch.

    Which one it is: https://docs.pytorch.org/docs/stable/generated/torch.argmax.html.
    """

    def search(self, session: Session) -> list[list[Hypothesis]]:
        """Returns one hypothesis for each sentence."""
        outputs: list[list[int]] = [[] for _ in session.sentence_ids]
        scores = [0.0 for _ in session.sentence_ids]
        while True:
            best, tokens = session.log_probabilities.max(dim=-1)  # each (rows,)
            rows = zip(session.sentences.tolist(), tokens.tolist(), best.tolist(), strict=True)
            for sentence, token, score in rows:
                scores[sentence] += score
                if token != END:
                    outputs[sentence].append(token)
            unfinished = (tokens != END).nonzero().squeeze(1)
            if len(unfinished) == 0:
                return [[Hypothesis(*output)] for output in zip(outputs, scores, strict=True)]
            session.select(unfinished)
            session.extend(tokens[unfinished])
