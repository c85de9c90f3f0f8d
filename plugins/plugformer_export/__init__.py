"""Trained models in the formats of other engines, each compared with the original before it is written.

Reading order: target (what a format provides), comparison, verification, a module for each format, command.
In Python::

    from plugformer_export import verified
    from plugformer_export.ctranslate2 import CTranslate2

    print(verified(trained, CTranslate2(), Path("exported")))
"""

from plugformer_export.comparison import Verification
from plugformer_export.target import Engine, ExportError, Refused, Target
from plugformer_export.verification import verified

__all__ = ["Engine", "ExportError", "Refused", "Target", "Verification", "verified"]
