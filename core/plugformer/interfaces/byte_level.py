"""The spelling of bytes in byte-level vocabularies, where every byte is a visible character."""

_VISIBLE = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
_HIDDEN = [byte for byte in range(0x100) if byte not in _VISIBLE]
_BYTES = {chr(byte): byte for byte in _VISIBLE} | {chr(0x100 + n): byte for n, byte in enumerate(_HIDDEN)}
"""GPT-2's alphabet: visible characters of Latin-1 stand for their bytes, those from U+0100 for the others."""


def byte_piece(token: str) -> bytes:
    """Returns the bytes that a token of a byte-level vocabulary stands for.

    One with a character outside the alphabet, as added tokens have, stands for its own text.
    """
    if _BYTES.keys() >= set(token):
        return bytes(_BYTES[character] for character in token)
    return token.encode()
