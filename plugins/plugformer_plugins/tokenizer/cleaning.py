"""Unicode normalization and lower-casing, as options of subword tokenizers."""

from typing import Literal

from tokenizers import normalizers

Normalization = Literal["none", "nfc", "nfkc"]

_STEPS: dict[Normalization, list[normalizers.Normalizer]] = {
    "none": [],
    "nfc": [normalizers.NFC()],
    "nfkc": [normalizers.NFKC()],
}


def cleaning(normalization: Normalization, *, lowercase: bool) -> normalizers.Normalizer:
    """Returns a normalizer for Unicode's forms (https://unicode.org/reports/tr15/), then lower-casing."""
    return normalizers.Sequence(_STEPS[normalization] + [normalizers.Lowercase()] * lowercase)
