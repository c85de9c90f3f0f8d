"""What a report says of speedups, power laws, and how far small scales and noisy metrics can be trusted."""

from collections.abc import Iterator
from itertools import groupby
from operator import itemgetter

from plugformer_ablation.judging.currency import LEVEL
from plugformer_ablation.judging.findings import LOSS, Findings
from plugformer_ablation.judging.reliability import LAST
from plugformer_ablation.judging.results import Record
from plugformer_ablation.reporting.sentences import percent


def currency_sentences(findings: Findings) -> list[str]:
    """Returns a sentence for the speedup of each arm, and one on what it means."""
    lines = [f"{each['arm']}: {_speedup(each['speedup'])}." for each in findings.comparisons]
    if any("updates" in each["speedup"] for each in findings.comparisons):
        lines.append(
            f"A speedup compares arm and baseline where both have the larger one of their final {LOSS}es. "
            "Where the learning rate decays it is closer to 1 than that of trainings planned to be shorter."
        )
    laws = findings.record["laws"]
    lines += [f"{law['arm']}: {_law(law)}." for law in laws if "note" not in law]
    notes = dict.fromkeys(law["note"] for law in laws if "note" in law)
    lines += [f"no power law, since {note}." for note in notes]
    return [*lines, *_decisions(findings), *_signals(findings)]


def _decisions(findings: Findings) -> Iterator[str]:
    """Yields for each task how often its scales decide between two arms as the largest one does."""
    known = findings.record["decision_accuracy"]
    for (task, largest), group in groupby(known, itemgetter("task", "largest")):
        told = [
            f"{each['scale']} {each['by_metric']} of {each['pairs']} by {findings.metric}, "
            f"{each['by_loss']} by {LOSS}"
            for each in group
        ]
        where = f"{task}: " if task else ""
        yield f"{where}pairs of arms that are decided as at {largest}: {'; '.join(told)}."


def _signals(findings: Findings) -> Iterator[str]:
    """Yields the signal to noise of all contexts."""
    told = []
    for each in findings.record["signal_to_noise"]:
        known = ((findings.metric, each["metric"]), (LOSS, each["loss"]))
        ratios = ", ".join(f"{value['ratio']:.1f} in {name}" for name, value in known if value)
        told.append(f"{each['context']} {ratios}".strip())
    if told:
        meaning = f"largest difference of two arms over the deviation of the last {LAST} evaluations"
        yield f"signal to noise ({meaning}): {'; '.join(told)}."


def _law(law: Record) -> str:
    measured, multiplier = [values[-1] for values in law["scales"].values()], law.get("multiplier")
    text = (
        f"{LOSS} = {law['irreducible']:.3f} + {law['reducible']:.3f} (C / {measured[0]:.2g})^"
        f"-{law['exponent']:.3f} after C operations of training; the smaller scales predict "
        f"{law['predicted']:.3f} for {measured[1]:.3f} at the largest"
    )
    if not law["irreducible"]:  # the least that a law may have
        return f"{text}; losses fall faster than such a law, which does not hold"
    if multiplier is None:
        return text
    ratio, low, high = ("∞" if end is None else f"{end:.2f}" for end in multiplier.values())
    band = "" if law["curve"]["low"][0] is None else f" ({percent(LEVEL)} band {low} to {high})"
    return f"{text}, where the arm is worth {ratio} times the operations of the baseline{band}"


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
    level = f" ({percent(LEVEL)} interval"
    lower = f"its final loss is the lower one with {speedup['reaches']} of {speedup['pairs']} seeds"
    return "; ".join([ratio + _ends(speedup[first], level), *more, lower])


def _ends(ratio: Record, words: str = " (interval") -> str:
    return "" if ratio["low"] is None else f"{words} {ratio['low']:.2f} to {ratio['high']:.2f})"
