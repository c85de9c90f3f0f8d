"""All files of a report."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from pathlib import Path

from plugformer.errors import RunError
from plugformer_ablation.findings import Findings
from plugformer_ablation.report.latex import latex_table
from plugformer_ablation.report.page import report_page
from plugformer_ablation.report.records import Record, arm_rows, cell_rows, report_record

Notify = Callable[[str], None]


def write_report(findings: Findings, out: Path, notify: Notify) -> list[Path]:
    """Writes the report and returns its files, the page last.

    The page is `report.html`. Beside it stand `report.json`, `report.csv` (a row for each arm), `cells.csv`
    (a row for each cell), `report.tex`, and the figures as PNG and SVG.

    Args:
        findings: What it tells.
        out: A folder; files of earlier reports in it are replaced.
        notify: Is told what cannot be drawn, and why.

    Raises:
        RunError: A file cannot be written.
    """
    contents = {
        "report.json": json.dumps(
            report_record(findings), indent=2, ensure_ascii=False, allow_nan=False
        ).encode(),
        "report.csv": _csv(arm_rows(findings)),
        "cells.csv": _csv(cell_rows(findings)),
        "report.tex": latex_table(findings).encode(),
    }
    from plugformer_ablation.report.figures import draw  # imports matplotlib, which takes a second

    pictures, files = draw(findings, notify)
    contents |= files
    contents["report.html"] = report_page(findings, pictures).encode()
    return [_write(out / name, content) for name, content in contents.items()]


def _csv(rows: Sequence[Record]) -> bytes:
    """Returns rows with all the columns that occur, in UTF-8."""
    columns = list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, columns, lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue().encode()


def _write(file: Path, content: bytes) -> Path:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)
    except OSError as error:
        raise RunError(
            f"{file} cannot be written: {error.strerror or error}; choose another place with --out"
        ) from error
    return file
