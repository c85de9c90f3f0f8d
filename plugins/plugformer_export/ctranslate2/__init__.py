"""Export to CTranslate2: https://opennmt.net/CTranslate2."""

from plugformer_export.ctranslate2.format import CTranslate2

__all__ = ["CTranslate2"]
