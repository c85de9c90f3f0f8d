"""`plugformer ablate`: studies of which parts of a model matter.

In Python::

    from plugformer_ablation import ablate
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer_ablation.findings import Findings
    from plugformer_ablation.running import ablate

__all__ = ["Findings", "ablate"]

if not TYPE_CHECKING:  # a type checker then still sees a misspelt name
    __getattr__ = lazily(__name__)
