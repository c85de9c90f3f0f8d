"""WordPiece reads its texts twice, and never has all of them in memory."""

import weakref

from plugformer_plugins.tokenizer.subwords import WordPiece


class Text(str):
    """A text that can be counted while it is in use."""


class Stream:
    """Texts that are made as they are read."""

    def __init__(self, count):
        self.count, self.alive, self.most = count, weakref.WeakSet(), 0

    def __iter__(self):
        for number in range(self.count):
            text = Text(f"text {number} of {self.count}")
            self.alive.add(text)
            self.most = max(self.most, len(self.alive))
            yield text


def test_texts_are_read_as_they_are_needed():
    stream, streamed, listed, once = Stream(5000), WordPiece(), WordPiece(), WordPiece()
    streamed.train(stream)
    listed.train([str(text) for text in stream])
    once.train(iter(stream))  # an iterator cannot be read twice: it has to be kept
    rows = [tokenizer.encode(["text 4711 of 5000"]) for tokenizer in (streamed, listed, once)]
    assert rows[0] == rows[1] == rows[2]
    stream.most, repeated = 0, WordPiece()
    repeated.train(stream)
    assert stream.most < 1000


def test_control_characters_have_numbers_in_order():
    """Python's `split` cuts at these, the library does not; what it finds itself it numbers by chance."""
    tokenizer = WordPiece()
    tokenizer.train(["a\x1cb\x1dc\x1ed\x1fe"])
    inside = ["##\x1c", "##\x1d", "##\x1e", "##\x1f", "##b", "##c", "##d", "##e"]
    assert tokenizer.tokens(range(4, 13)) == [*inside, "a"]
