"""`plugformer ablate`: studies of which parts of a model matter.

In Python::

    from plugformer_ablation import ablate
"""

from plugformer_ablation.ablation import ablate
from plugformer_ablation.judging.findings import Findings
from plugformer_ablation.judging.records import report_schema
from plugformer_ablation.reporting.report import StudyReport

__all__ = ["Findings", "StudyReport", "ablate", "report_schema"]
