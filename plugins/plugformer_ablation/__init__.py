"""`plugformer ablate`: studies of which parts of a model matter.

In Python::

    from plugformer_ablation import ablate
"""

from plugformer_ablation.findings import Findings
from plugformer_ablation.records import report_schema
from plugformer_ablation.report import StudyReport
from plugformer_ablation.running import ablate

__all__ = ["Findings", "StudyReport", "ablate", "report_schema"]
