"""What a report says in words: a sentence for each comparison, a heading, an explanation and remarks."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import product
from math import floor, log10

from plugformer_ablation.design.arms import BASELINE, SCALE, TASK, label, plain_name
from plugformer_ablation.design.matching import TOLERANCE
from plugformer_ablation.judging.comparison import Verdict
from plugformer_ablation.judging.contrasts import differs
from plugformer_ablation.judging.findings import Findings
from plugformer_ablation.judging.over_tasks import PERCENT
from plugformer_ablation.judging.records import Spent
from plugformer_ablation.judging.results import Record
from plugformer_ablation.running.costs import BLOCK, ROUNDS

UPDATE = "time of an update"
"""What reports call the cost of an arm's updates relative to the baseline's."""


def sentences(findings: Findings) -> list[str]:
    """Returns one sentence for each comparison: the difference, its interval, and what follows from it."""
    return [_sentence(findings, comparison) for comparison in findings.comparisons]


def contrast_sentences(findings: Findings) -> list[str]:
    """Returns one sentence for each contrast: its value, its interval, and whether it excludes 0."""
    lines = []
    for contrast in findings.record["contrasts"]:
        places = decimals(findings, next(iter(contrast["weights"])))
        if contrast["low"] is None:
            lines.append(f"{contrast['contrast']}: cannot be told.")
            continue
        value, low, high = (decimal(contrast[key], places) for key in ("difference", "low", "high"))
        told = "differs from 0" if differs(contrast) else "not shown to differ from 0"
        for name, seeds in contrast["broken"].items():
            told += f"; {name} failed or diverged with seed {', '.join(map(str, seeds))}"
        interval = f"{percent(contrast['level'])} interval {low} to {high}"
        lines.append(f"{contrast['contrast']}: {value} ({interval}), {told}.")
    return lines


def overall_sentences(findings: Findings) -> list[str]:
    """Returns one sentence for each arm over all tasks, and on which of them it is better or worse."""
    lines = []
    for overall in findings.overall:
        difference = overall["difference"]
        places = 2 if overall["metric"] == PERCENT else decimals(findings, overall["arms"][0])
        if difference is None:
            notes = "; ".join(overall["notes"])
            lines.append(f"over all tasks, {overall['arm']} cannot be compared: {notes}.")
            continue
        unit = f" {PERCENT}" if overall["metric"] == PERCENT else ""
        direction = "better" if (difference > 0) == overall["higher_is_better"] else "worse"
        where = f"over {len(overall['tasks'])} tasks, {overall['arm']}"
        text = f"{where} is {decimal(abs(difference), places)}{unit} {direction}"
        if difference == 0:
            text = f"{where} scores the same as the baseline"
        text += _interval(overall, places)
        text += f": {_conclusion(overall, places)}"
        for key, told in (("better_on", "better"), ("worse_on", "worse")):
            if overall[key] and overall["verdict"] != told:
                text += f"; {told} on {', '.join(overall[key])} alone: a local result"
        lines.append(f"{text}.")
    return lines


def _sentence(findings: Findings, comparison: Record) -> str:
    arm, baseline = _names(findings, comparison)
    arm += _other_size(comparison)
    difference, places = comparison["difference"], decimals(findings, comparison["arm"])
    if difference is None:
        reasons = dict.fromkeys([*comparison["notes"], *_failures(comparison)])
        return f"{arm} cannot be compared with {baseline}: {'; '.join(reasons)}."
    direction = "better" if (difference > 0) == comparison["higher_is_better"] else "worse"
    text = f"{arm} is {decimal(abs(difference), places)} {direction} than {baseline}"
    if comparison["pairs"] == 1:
        text = f"{arm} and {baseline} differ by {decimal(difference, places)}"
    if difference == 0:
        text = f"{arm} scores the same as {baseline}"
    text += _interval(comparison, places)
    more = (
        *_failures(comparison),
        *_inconsistent(findings, comparison),
        *_edges(findings, comparison),
        *_needed(comparison),
    )
    return "; ".join([f"{text}: {_conclusion(comparison, places)}", *more]) + "."


def _interval(comparison: Record, places: int) -> str:
    """Returns what a sentence says of the interval; nothing if there is none."""
    if comparison["low"] is None:
        return ""
    low, high = (decimal(comparison[end], places) for end in ("low", "high"))
    covered = " over test examples alone" if comparison["pairs"] == 1 else ""
    return f" ({percent(comparison['level'])} interval{covered} {low} to {high})"


def _conclusion(comparison: Record, places: int) -> str:
    """Returns what follows from a difference and its interval."""
    if comparison["verdict"] == Verdict.NONE:
        return next((str(note) for note in comparison["notes"] if "no verdict" in note), "no verdict")
    smallest = comparison["smallest_effect"]
    if comparison["verdict"] == Verdict.EQUIVALENT:
        low, high = (decimal(comparison["equivalence"][end] or 0.0, places) for end in ("low", "high"))
        return (
            f"equivalent, since the interval for this, {low} to {high}, excludes a "
            f"difference of {decimal(smallest, places)} or more"
        )
    if comparison["verdict"] == Verdict.UNDECIDED:
        if any("floor" in note for note in comparison["notes"]):
            return "undecided, since at its floor or ceiling the metric cannot tell arms apart"
        ends = comparison["equivalence"]
        if ends["low"] is None or -smallest < ends["low"] <= ends["high"] < smallest:
            if any((*comparison["failed_seeds"].values(), *comparison["diverged_seeds"].values())):
                return "undecided, since equivalence needs all trainings of both arms"
            return "undecided, since where all trainings have one score nothing tells arms apart"
        return f"undecided, since neither 0 nor a difference of {decimal(smallest, places)} is excluded"
    shown = comparison["verdict"] != Verdict.NOT_DISTINGUISHABLE
    return "a significant difference" if shown else "no difference shown"


def _needed(comparison: Record) -> Iterator[str]:
    """Yields what would decide a comparison that is undecided."""
    if needed := comparison["would_decide"]:
        enough = f"{needed['seeds']} seeds would decide"
        if needed["seeds"] is None:
            enough = f"no number of seeds would decide without at least {needed['examples']:,} test examples"
        yield f"if the difference stayed as it is, {enough}"


def _failures(comparison: Record) -> Iterator[str]:
    """Yields what a sentence says of cells that failed or diverged."""
    if any(comparison["diverged_seeds"].values()):
        (told,) = [note for note in comparison["notes"] if note.startswith("diverged")]
        p = comparison["p_diverged"]
        yield told if p is None else f"{told}; uncorrected p of the rates {p:.2g}"
    if any(comparison["failed_seeds"].values()):
        yield comparison["notes"][0]


def _inconsistent(findings: Findings, comparison: Record) -> Iterator[str]:
    """Yields of which side self-checks failed: an attention that reads later tokens would look better."""
    for side, name in zip(("arm", "baseline"), _names(findings, comparison), strict=True):
        cells = findings.results.cells_of(comparison[side])
        if wrong := [cell for cell in cells if cell.inconsistent]:
            trained = f"{len(wrong)} of {len(cells)} trainings of {name}"
            yield f"the self-check of {trained} FAILED ({wrong[0].inconsistent[0]}): do not trust its scores"


def _edges(findings: Findings, comparison: Record) -> Iterator[str]:
    """Yields which side has a tuned setting at an end of the values tried."""
    sides: dict[tuple[str, str], list[str]] = defaultdict(list)
    for side, name in zip(("arm", "baseline"), _names(findings, comparison), strict=True):
        for path, _, end, seeds in _choices(findings.arms[comparison[side]]):
            if end:
                sides[path, end].append(f"{name}{seeds}")
    for (path, end), names in sides.items():
        yield f"{' and '.join(names)} took the {end} {path} that was tried"


def _choices(arm: Record) -> Iterator[tuple[str, str, str, str]]:
    """Yields path, value and end of what an arm has chosen, and which share of its seeds, if each did."""
    for path, value in arm["tuned"].items():
        yield path, label(value), arm["edges"].get(path, ""), ""
    counts: Counter[tuple[str, str, str]] = Counter()
    for choice in arm["choices"]:
        for seed, (path, value) in product(choice["seeds"], choice["tuned"].items()):
            counts[path, label(value), choice["ends"].get(str(seed), {}).get(path, "")] += 1
    total = sum(len(choice["seeds"]) for choice in arm["choices"])
    for (path, text, end), count in counts.items():
        yield path, text, end, f" ({count} of {total} seeds)"


def _other_size(comparison: Record) -> str:
    """Returns what a sentence adds to an arm that has more or fewer parameters than its baseline."""
    arm, baseline = (comparison["parameters"][side] for side in ("arm", "baseline"))
    if abs(arm - baseline) <= TOLERANCE * baseline:
        return ""
    more = "more" if arm > baseline else "fewer"
    share = abs(arm / baseline - 1)
    return f", with {100 * share:.0f} % {more} parameters ({arm:,} for {baseline:,}),"


def _names(findings: Findings, comparison: Record) -> tuple[str, str]:
    """Returns what a sentence calls an arm and its baseline: their values of the only factor that differs."""
    ours, theirs = (findings.arms[comparison[side]]["values"] for side in ("arm", "baseline"))
    differing = [factor for factor in ours if ours[factor] != theirs.get(factor)]
    if len(differing) != 1:
        return comparison["arm"], comparison["baseline"]
    context = [f"{word} {ours[key]}" for word, key in (("on", TASK), ("at", SCALE)) if key in ours]
    factor = f"{differing[0]} " if len(ours) > 1 + len(context) else ""
    where = f"{' '.join(context)}, " if context else ""
    return f"{where}{factor}{ours[differing[0]]}", theirs[differing[0]]


def trained_seeds(findings: Findings) -> list[int]:
    """Returns the seeds with which any arm was trained: looks that decide all leave out the rest."""
    trained = {cell.seed for cell in findings.results.cells}
    seeds: list[int] = findings.results.study["seeds"]
    return [seed for seed in seeds if seed in trained] or seeds


def heading(findings: Findings) -> str:
    """Returns a line about the metric, the split, the number of seeds and the baseline."""
    seeds, planned = trained_seeds(findings), findings.results.study["looks"]
    judged = dict.fromkeys(_judged_by(findings, arm) for arm in findings.record["arms"])
    count = f"{len(seeds)} seeds" if len(seeds) > 1 else "one seed"
    if len(planned) > 1:
        *before, last = [look for look in planned if look <= len(seeds)] or planned[:1]
        steps = f"{', '.join(map(str, before))} and {last}" if before else f"{last}"
        most = f" of {planned[-1]} planned" * (len(seeds) < planned[-1])
        count = f"{len(seeds)}{most} seeds, looked at after {steps}"
    if (looks := len(findings.looks)) > 1:
        count += f" ({looks} looks at this study)"
    values = {**findings.record["arms"][0]["values"]}
    baseline = plain_name(findings.record["arms"][0]["arm"], values)
    values = {factor: value for factor, value in values.items() if factor not in (TASK, SCALE)}
    if baseline == BASELINE:
        baseline = ", ".join(f"{factor} {value}" for factor, value in values.items())
    return "; ".join([*judged, count, f"baseline: {baseline}", *_screened(findings)])


def _screened(findings: Findings) -> Iterator[str]:
    """Yields how many of how many arms are compared, if they were screened."""
    if screening := findings.record["screening"]:
        kept = sum(each["confirmed"] for each in screening)
        yield (
            f"{kept} of {len(screening)} arms are compared, the others were screened out by "
            f"{findings.results.study['screen']['seeds']} seeds of their own on validation, without a verdict"
        )


def _judged_by(findings: Findings, arm: Record) -> str:
    """Returns by what an arm is judged."""
    metric = findings.results.metrics[arm["arm"]][arm["metric"]]
    direction = "higher" if metric.higher_is_better else "lower"
    task = f"{arm['values'][TASK]}: " if TASK in arm["values"] else ""
    return f"{task}{arm['metric']} on {arm['split']}, {direction} is better"


def explanation(findings: Findings) -> list[str]:
    """Returns an explanation of the numbers."""
    lines = ["± is the standard deviation over seeds."] if len(findings.results.study["seeds"]) > 1 else []
    level = next((percent(comparison["level"]) for comparison in findings.comparisons), "")
    if level and len(findings.results.study["seeds"]) == 1:
        lines.append(
            f"A difference is the arm's score minus the baseline's. The {level} interval covers test "
            "examples alone: how much seeds differ is unknown, so that there is no verdict."
        )
    elif level:
        lines += how_judged(findings)
        if any(comparison["would_decide"] for comparison in findings.comparisons):
            lines.append(
                "How many seeds or examples would decide assumes that the difference stays as it is, that "
                "seeds and examples vary as much as here, and one more look, with half of the chance of a "
                "false alarm. It is no promise: were this difference the true one, every second such study "
                "would decide."
            )
    if updates(findings):
        lines.append(
            f"The {UPDATE} is relative to the baseline's. Arms ran blocks of {BLOCK} updates in turn; it is "
            f"the median of the ratios of {ROUNDS} rounds, with a 95 % interval (a bootstrap over rounds)."
        )
    return lines


def how_judged(findings: Findings) -> list[str]:
    """Returns how the differences of several seeds are judged."""
    levels, family = {percent(each["level"]) for each in findings.comparisons}, findings.family
    interval = f"The {levels.pop()} interval" if len(levels) == 1 else "The interval, at the level beside it,"
    unless = ", unless it is equivalent" if [*_about_equivalence(findings)] else ""
    several = len(family.chances) > 1
    told = f"all {len(family.chances)} of this report" if several else "it"
    if family.number > len(family.chances):
        told += f", corrected for the {family.number} of all reports of this study,"
    told += " hold together with" if several else " holds with"
    return [
        "A difference is the arm's mean minus the baseline's, over pairs of the same seed.",
        f"{interval} covers the variation over seeds and test examples; {told} "
        f"{percent(1 - max(family.chances.values()))}. An arm is better or worse where it "
        f"excludes 0, which is where the corrected p is below 0.05{unless}. A verdict in favor of a side "
        "also needs all of its seeds.",
        "A training that diverged counts with the score of its untrained model.",
        *_about_equivalence(findings),
        *_about_looks(findings),
        *_about_scope(findings),
    ]


def _about_equivalence(findings: Findings) -> Iterator[str]:
    """Yields when arms are equivalent, if the study says which effect matters."""
    declared, late = findings.results.study["smallest_effect"], findings.family.late
    if declared and late != findings.family.chances.keys():
        yield (
            f"The smallest effect that matters was declared as {declared}. An arm is equivalent where two "
            "one-sided tests, each at the level of one comparison, exclude a larger difference; together "
            "they are an interval at a lower level than that of a difference."
        )
    if late:
        yield (
            "Earlier reports of this study had another smallest effect, or none. Chosen after a result one "
            "could make any arms equivalent: for what they have judged it does not count here. Declare it in "
            "a new study with other seeds."
        )


def _about_looks(findings: Findings) -> Iterator[str]:
    """Yields what several looks, planned or not, mean for the level."""
    if len(findings.results.study["looks"]) > 1:
        yield (
            "Looks were planned: an arm that is decided is trained with no more seeds, and the error rates "
            "hold for all looks together (O'Brien and Fleming's spending of them)."
        )
    if len(looks := findings.looks) > 1:
        counts = ", ".join(str(len(look["seeds"])) for look in looks)
        chances = [look["chance"] for look in looks]
        yield (
            f"There were {len(looks)} looks at this study ({counts} seeds), which were not planned together: "
            f"their chances of a false alarm are {', '.join(map(percent, chances))}, and that of any of them "
            f"is at most {percent(sum(chances))}, unless results chose the seeds or the baseline."
        )


def _about_scope(findings: Findings) -> Iterator[str]:
    """Yields how arms were screened, and what else the intervals cover or leave out."""
    if findings.overall:
        yield (
            "A verdict over all tasks is about these tasks: its interval covers seeds and test examples, not "
            "the choice of tasks."
        )
    if any(overall["metric"] == PERCENT for overall in findings.overall):
        yield "Shares of the baseline's mean on each task leave out the error of that mean."
    if findings.record["screening"]:
        yield (
            "Of the arms that went on by their p, at most "
            f"{percent(findings.results.study['screen']['rate'])} do not differ, in expectation. Verdicts "
            "are from other seeds and examples than the screening, and corrected for these arms alone."
        )
    if any(arm["task"].get("training", {}).get("resample") for arm in findings.record["arms"]):
        yield (
            "Every seed trained on its own draw of the training examples, with replacement and the same for "
            "all arms: the variation over seeds is also that over training sets."
        )
    if any(arm["tuned"] for arm in findings.record["arms"]):
        yield (
            "A verdict is about arms at the settings that they have chosen. Its interval leaves out what "
            "other trials would have chosen: after few, arms that are alike may differ by their choice. With "
            "`tuning: {seeds: each}` a verdict is about arms with their tuning."
        )
    if any(arm["choices"] for arm in findings.record["arms"]):
        yield (
            "Every seed has chosen settings for itself on validation, and a verdict is about arms with their "
            "tuning: the variation over seeds is also that of what is chosen."
        )


def remarks(findings: Findings) -> list[str]:
    """Returns the choices of tuning, and remarks on single arms: mismatches, failures, missing tests."""
    arms = findings.record["arms"]
    lines = [f"the study took {price(findings.record['spent'])}"]
    chosen: dict[str, dict[tuple[str, str], list[str]]] = defaultdict(lambda: defaultdict(list))
    for arm in arms:
        for path, value, end, seeds in _choices(arm) if arm["cells"] else ():
            chosen[path][value, end].append(f"{arm['arm']}{seeds}")
    for path, by_value in chosen.items():
        choices = [
            f"{value} for {', '.join(takers)}"
            + (f" (the {end} of those tried, a better one may lie beyond)" if end else "")
            for (value, end), takers in by_value.items()
        ]
        lines.append(f"tuning chose {path} {'; '.join(choices)}")
    known = {arm["arm"]: arm["sensitivity"] for arm in arms if arm["sensitivity"]}
    for path in dict.fromkeys(path for each in known.values() for path in each):
        values = ", ".join(f"{name} {each[path]:.3g}" for name, each in known.items() if path in each)
        lines.append(f"sensitivity to {path} (mean excess loss over the values tried): {values}")
    notes = {comparison["arm"]: comparison["notes"] for comparison in findings.comparisons}
    for arm in arms:
        failed = sorted((int(seed), reason) for seed, reason in arm["failed"].items())
        lines += [f"{arm['arm']}: {'; '.join(arm['remarks'])}"] if arm["remarks"] else []
        lines += [f"{arm['arm']}: seed {seed} failed: {reason}" for seed, reason in failed]
        lines += [f"{arm['arm']}: {note}" for note in notes.get(arm["arm"], ())]
    before = {"tuning": "trials", "screening, or that trials start from,": "preparation"}
    for purpose, key in before.items():
        for each in (each for each in findings.record[key] if each.get("failure")):
            seed = f"seed {each['seed']}{_settings_of(each)}"
            lines.append(f"{each['arm']}: a training of {purpose} failed, {seed}: {each['failure']}")
    for code, cells in findings.results.made_of.get("accepted", {}).items():
        names = f"{', '.join(cells[:3])}{', ...' * (len(cells) > 3)}"
        lines.append(f"{len(cells)} cells of other code of Plugformer, {code[:12]}, are accepted: {names}")
    return lines


def price(record: Spent) -> str:
    """Returns what was spent, in words."""
    words = f"{_duration(record['training_seconds'])} of updates in {record['trainings']:,} trainings"
    if record["trials"]:
        words += f", and {_duration(record['trial_seconds'])} in {record['trials']:,} trials of tuning"
    if record["preparation"]:
        trainings = f"{record['preparation']:,} trainings for screening or for trials to start from"
        words += f", and {_duration(record['preparation_seconds'])} in {trainings}"
    return words


def _duration(seconds: float) -> str:
    if seconds < 360:
        return f"{seconds:.3g} device-seconds"
    return f"{seconds / 3600:,.{2 if seconds < 36_000 else 0}f} device-hours"


def _settings_of(trial: Record) -> str:
    return "".join(f", {path} {value}" for path, value in trial.get("tuned", {}).items())


def updates(findings: Findings) -> list[Record]:
    """Returns the cost of an update of each arm where it was measured."""
    costs = [arm["cost"].get("update") for arm in findings.record["arms"]]
    return [update for update in costs if update]


def percent(share: float) -> str:
    """Returns a share in percent, with four digits, or as many as tell it from 100 %."""
    if share < 0.9999:
        return f"{100 * share:.4g} %"
    share = min(share, 1 - 1e-12)  # which a smaller alpha rounds to 1
    places = 1 - floor(log10(100 * (1 - share)))
    return f"{100 * share:.{places}f}".rstrip("0") + " %"


def decimal(value: float, places: int) -> str:
    """Returns a score with a number of decimals; one that is very large, with four digits."""
    return f"{value:.4g}" if abs(value) > 1e6 else f"{value:.{places}f}"


def decimals(findings: Findings, arm: str) -> int:
    """Returns how many decimals an arm's scores have; two are enough for what is in percent or larger."""
    return 2 if findings.largest[findings.arms[arm]["values"].get(TASK)] > 10 else 4
