"""What a report says of speedups."""

from plugformer_ablation.findings import LOSS, Findings
from plugformer_ablation.results import Record
from plugformer_ablation.sentences import percent


def currency_sentences(findings: Findings) -> list[str]:
    """Returns a sentence for the speedup of each arm, and one on what it means."""
    lines = [f"{each['arm']}: {_speedup(each['speedup'])}." for each in findings.comparisons]
    if any("updates" in each["speedup"] for each in findings.comparisons):
        lines.append(
            f"A speedup compares arm and baseline where both have the larger one of their final {LOSS}es. "
            "Where the learning rate decays it is closer to 1 than that of trainings planned to be shorter."
        )
    return lines


def _speedup(speedup: Record) -> str:
    if "note" in speedup:
        return f"no speedup, since {speedup['note']}"
    first = "tokens" if "tokens" in speedup else "updates"
    ratio = f"{speedup[first]['ratio']:.2f} times as fast to the same {LOSS} in {first}"
    more = (
        f"{speedup[unit]['ratio']:.2f} in {unit}{_ends(speedup[unit])}"
        for unit in ("operations", "time")
        if unit in speedup
    )
    level = f" ({percent(speedup['level'])} interval"
    lower = f"its final loss is the lower one with {speedup['reaches']} of {speedup['pairs']} seeds"
    return "; ".join([ratio + _ends(speedup[first], level), *more, lower])


def _ends(ratio: Record, words: str = " (interval") -> str:
    return "" if ratio["low"] is None else f"{words} {ratio['low']:.2f} to {ratio['high']:.2f})"
