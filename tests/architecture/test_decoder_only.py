"""A decoder alone: how sequences are arranged, and what is predicted."""

import numpy as np

from plugformer.interfaces import BEGIN, END, Encoded, Level, Ragged
from plugformer_plugins.architecture.decoder_only import DecoderOnly


def test_input_and_output_are_one_sequence():
    encoded = Encoded({"input": Ragged.of([[7, 8], [9]])}, Ragged.of([[10], [11, 12]]))
    batch = DecoderOnly().collate(encoded, Level.NEXT_TOKEN)
    assert batch.target.ids.tolist() == [
        [BEGIN, 7, 8, END, 10, END],
        [BEGIN, 9, END, 11, 12, END],
    ]
    assert batch.given.tolist() == [4, 3]


def test_limits_leave_room_for_special_tokens():
    limits = DecoderOnly().limits(10, Level.NEXT_TOKEN)
    both = DecoderOnly().positions(np.array([[limits.together - 3, 3]]), Level.NEXT_TOKEN)
    assert both.item() - 1 == 10  # END at the end is predicted and not read
