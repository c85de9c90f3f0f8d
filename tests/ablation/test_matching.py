"""Arms of equal cost: counted against models that are built in full, and against arithmetic."""

import pytest
from tests.ablation.studies import declared, written
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from plugformer.errors import ConfigurationError
from plugformer.experiment import Experiment
from plugformer.model import build
from plugformer_ablation.design import matching
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.matching import matched, read_data, solve_width
from plugformer_ablation.running.executors import LocalExecutor
from plugformer_ablation.running.plan import plan

WIDE = ["model.width=128", "model.ffn_width=512"]
SWAPS = ("model.attention=[mha, mqa]", "model.feed_forward=[gelu, swiglu]", "model.position=[learned, rope]")


def arms(match, registry, *swaps, settings=()):
    study = declared(*(swaps or SWAPS), settings=settings, match=match)
    return matched(resolve_arms(study, registry), study, str)


@pytest.mark.parametrize("slope", [1, 7, 300])
@pytest.mark.parametrize("target", [5.0, 1e3, 12_345.0, 6e4])
def test_the_width_is_the_best_of_all(slope, target):
    def cost(width):
        return 100 + slope * width

    best = min(range(8, 2**17, 8), key=lambda width: abs(cost(width) - target))
    assert abs(cost(solve_width(cost, target)) - target) == abs(cost(best) - target)


def test_parameters_are_those_of_the_model_that_is_trained(registry):
    for arm in arms("none", registry):
        sizes = read_data(arm.resolved, str).sizes
        model = build(Experiment.of(arm.resolved.task, registry).spec, sizes)
        whole = sum(parameter.numel() for parameter in model.parameters())
        assert arm.counted["parameters"] == whole


@pytest.mark.parametrize("feed_forward", ["gelu", "{name: moe, experts: 4}"])
def test_operations_are_those_of_a_real_forward_pass(feed_forward, registry):
    arm = arms("none", registry, SWAPS[0], settings=[f"model.feed_forward={feed_forward}"])[0]
    facts = read_data(arm.resolved, str)
    model = build(Experiment.of(arm.resolved.task, registry).spec, facts.sizes).eval()
    # The counter does not know the fused attention of the CPU.
    with FlopCounterMode(display=False) as counter, sdpa_kernel(SDPBackend.MATH):
        model.logits(facts.example)
    assert arm.counted["flops"] == counter.get_total_flops() / facts.example.tokens


@pytest.mark.parametrize("match", ["parameters", "flops"])
def test_matched_arms_cost_the_same_within_one_per_cent(match, registry):
    found = arms(match, registry, settings=WIDE)
    costs = [arm.counted[match] for arm in found]
    assert costs == pytest.approx([costs[0]] * len(costs), rel=0.01)
    assert len({arm.resolved.task.model.ffn_width for arm in found}) > 2
    assert found[0].resolved.task.model.ffn_width == 512
    assert not any("not matched" in note for arm in found for note in arm.notes)


@pytest.mark.parametrize("match", ["flops", "operations"])
def test_operations_that_are_not_counted_forbid_equal_ones(match, registry):
    message = (
        rf"`match: {match}` (?s:.)*of the arm 'baseline' write \d\.\d% as many elements, expected at most 5%"
    )
    with pytest.raises(ConfigurationError, match=message):
        arms(match, registry)


def test_arms_that_cannot_be_matched_are_refused_together(registry):
    grid = ("model.layers=[1, 8]", "model.feed_forward=[gelu, swiglu]")
    message = (
        r"--match parameters  match: .*within 5%(?s:.)*'layers=8': \+[\d.]+% with .*, 8\n"
        r"(?s:.)*'layers=8, feed_forward=swiglu': (?s:.)*`match: none`"
    )
    study = declared(*grid, design="grid", match="parameters")
    with pytest.raises(ConfigurationError, match=message) as error:
        matched(resolve_arms(study, registry), study, str)
    assert "'feed_forward=swiglu'" not in str(error.value), "it can be matched"


@pytest.mark.parametrize("match", ["time", "tokens", "operations"])
def test_equal_budgets_need_a_number_of_updates(match, registry):
    with pytest.raises(ConfigurationError, match=rf"--match {match}  match: .*`training\.steps: NUMBER`"):
        arms(match, registry, settings=["training.steps=null"])


def test_equal_operations_are_those_of_whole_trainings(registry):
    settings = [*WIDE, "training.steps=900", "training.evaluate_every=100"]
    baseline, wider, often = arms(
        "operations",
        registry,
        "model.width=[128, 192]",
        "training.batches_per_update=[1, 3]",
        settings=settings,
    )
    training = wider.resolved.task.training
    operations = training.steps * wider.counted["flops"]
    assert operations == pytest.approx(900 * baseline.counted["flops"], rel=0.5 / training.steps)
    assert training.evaluate_every == round(training.steps / 9)
    assert wider.notes == (f"{training.steps} updates for 900 of the baseline: equal operations",)
    assert (often.resolved.task.training.steps, often.resolved.task.training.evaluate_every) == (300, 33)
    assert (baseline.resolved.task.training.steps, baseline.notes) == (900, ())


def test_equal_tokens_follow_from_the_batch_alone(registry):
    found = arms("tokens", registry, "training.batch_size=[8, 16, 300]", "model.width=[16, 32]")
    assert [arm.resolved.task.training.steps for arm in found] == [6, 3, 1, 6]
    assert found[2].notes == ("1 updates for 6 of the baseline: equal tokens (+525.0%)",)


def test_batches_of_examples_and_of_tokens_have_no_equal_budget(registry):
    other = {"training": {"batch_size": None, "batch_tokens": 64}}
    study = {"task": "dates", "arms": {"one": {}, "other": other}, "match": "tokens"}
    study["set"] = {"data.size": 60, "training.steps": 6, "training.batch_size": 8}
    study = written(registry, **study)
    with pytest.raises(ConfigurationError, match=r"needs one unit of batches, and the arm 'other'"):
        matched(resolve_arms(study, registry), study, str)


def test_a_plan_lists_the_updates_of_each_size_that_is_tuned(registry, tmp_path):
    tune = ["model.width=[128, 192]"]
    study = declared("model.attention=[mha, mqa]", settings=WIDE, tune=tune, seeds=1, match="operations")
    planned = plan(study, tmp_path, registry, LocalExecutor(1), str)
    told = [note for arm in planned["arms"] for note in arm["notes"]]
    assert [note.partition(" ")[0] for note in told] == [f"model.width={width}:" for width in (192, 128, 192)]
    assert all("updates for 6 of the baseline: equal operations" in note for note in told)


def test_arms_with_the_same_model_are_counted_once(registry, monkeypatch):
    built = []
    real = matching._built
    monkeypatch.setattr(matching, "_built", lambda *options: built.append(options) or real(*options))
    counted = arms("none", registry, "training.optimizer.lr=[0.1, 0.2, 0.3]", "model.attention=[mha, mqa]")
    assert len(counted) == 4
    assert len(built) == 2


def test_an_arm_that_is_a_little_off_says_so(registry):
    notes = arms("parameters", registry, "model.layers=[1, 2]", settings=["model.ffn_width=256"])[1].notes
    assert any("it is not matched" in note for note in notes), notes


def test_arms_with_other_training_examples_are_named(registry, tmp_path):
    for name, count in {"all": 12, "few": 7, "validation": 5, "test": 5}.items():
        rows = [f"{'good' if number % 2 else 'bad'} {'word ' * number}" for number in range(1, count + 1)]
        lines = [f"{row.strip()},{row.split()[0]}" for row in rows]
        (tmp_path / f"{name}.csv").write_text("\n".join(["text,label", *lines]) + "\n")
    files = {name: str(tmp_path / f"{name}.csv") for name in ("validation", "test")}
    task = {
        "type": "classification",
        "tokenizer": "words",
        "data": {"name": "table", "files": {"train": str(tmp_path / "all.csv"), **files}},
        "model": {"architecture": "encoder-only", "head": "classifier", "layers": 1, "width": 16},
        "evaluation": {"metrics": ["accuracy"]},
    }
    arms = {
        "all": {},
        "wide": {"model": {"ffn_width": 64}},
        "few": {"data": {"files": {"train": str(tmp_path / "few.csv")}}},
        "short": {"data": {"length": {"max": 5, "training": 4, "over": "truncate"}}},
        "dropped": {"data": {"length": {"training": 9, "over": "drop"}}},
    }
    study = written(registry, task=task, arms=arms)
    found = {arm.name: list(arm.notes) for arm in matched(resolve_arms(study, registry), study, str)}
    other = "trains on other examples than the baseline"
    cut = "other texts are cut than of the baseline"
    assert found == {
        "all": [],
        "wide": [],
        "few": [f"{other}: 7 for 12"],
        "short": [f"{cut}: 9 of train for 0, 1 of validation for 0, 1 of test for 0"],
        "dropped": [f"{other}: 8 for 12"],
    }
