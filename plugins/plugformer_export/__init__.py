"""Trained models as ONNX, for CTranslate2 and others, each compared with the original before it is written.

Reading order: engine (what a format provides), comparison, verification, kept, a folder for each engine,
command.
In Python::

    from plugformer_export.ctranslate2 import CTranslate2
    from plugformer_export.verification import verified

    print(verified(trained, CTranslate2(), Path("exported")))

The package itself imports nothing, so that the command refuses wrong arguments before torch is imported.
"""
