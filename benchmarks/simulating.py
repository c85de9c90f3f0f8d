"""What simulations of studies share: their command, and shares with their intervals."""

import argparse
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Executor, ProcessPoolExecutor

import numpy as np
from scipy.stats import binomtest


def share(hits: np.ndarray | Sequence[bool]) -> str:
    """Returns a share in percent with its exact 95 % interval."""
    result = binomtest(int(np.sum(hits)), len(hits))
    low, high = result.proportion_ci()
    return f"{100 * result.statistic:.1f} [{100 * low:.1f}, {100 * high:.1f}]"


def main(about: str | None, tables: Mapping[str, Callable[[Executor, int], None]], studies: int) -> None:
    """Prints the tables that are asked for, or all of them."""
    parser = argparse.ArgumentParser(description=(about or "").split("\n")[0])
    parser.add_argument("tables", nargs="*", metavar="TABLE", help=", ".join(tables))
    parser.add_argument("--studies", type=int, default=studies, help="for each figure")
    parser.add_argument("--processes", type=int, default=1)
    options = parser.parse_args()
    if unknown := {*options.tables} - {*tables}:
        parser.error(f"no table {', '.join(unknown)}; known: {', '.join(tables)}")
    with ProcessPoolExecutor(options.processes) as pool:
        for table in options.tables or tables:
            tables[table](pool, options.studies)
