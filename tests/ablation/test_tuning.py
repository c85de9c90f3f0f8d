"""Tuning: what is tried, what is chosen, and how a range is extended; nothing is trained."""

from collections import Counter, defaultdict
from math import log10
from types import SimpleNamespace

import pytest
from tests.ablation.studies import declared, written

from plugformer.errors import ConfigurationError
from plugformer_ablation.design.arms import resolve_arms
from plugformer_ablation.design.blocks import TUNING_SEED
from plugformer_ablation.design.matching import matched
from plugformer_ablation.judging.results import CellResult
from plugformer_ablation.running.cells import make_cells
from plugformer_ablation.running.tuning import tuned
from plugformer_plugins.metric.accuracy import ExactMatch

LR = "training.optimizer.lr"
ONCE = {"seeds": 1}
RESULTS = SimpleNamespace(metrics=defaultdict(lambda: {"exact_match": ExactMatch()}))


class Trained:
    """Scores cells by their learning rate, best at some value; `noise` is by seed."""

    def __init__(self, best, noise=()):
        self.best, self.noise, self.cells = best, dict(noise), []

    def __call__(self, cells):
        self.cells += cells
        return [self.result(cell) for cell in cells]

    def result(self, cell):
        training = cell.ingredients["task"]["training"]
        lr, decay = training["optimizer"]["lr"], training["optimizer"].get("weight_decay", 0)
        score = 1 - 0.1 * abs(log10(lr / self.best)) - decay + self.noise.get((lr, cell.seed), 0)
        scores = {"metrics": {"exact_match": score}}
        if cell.ingredients.get("chosen_on") == "validation":  # on test the other way round
            scores = {"metrics": {"exact_match": -score}, "validation": scores["metrics"]}
        return CellResult(cell.arm, cell.seed, loss=1 - score, **scores)


def tune(study, registry, out, train, *seeds):
    return tuned(resolve_arms(study, registry), study, RESULTS, out, train, None, seeds)


def tuning_study(registry, *, tuning=(), **keys):
    """Returns a study with such keys, of two attentions if it says no other arms."""
    arms = {"mha": {}, "mqa": {"model.attention": "mqa"}}
    study = {"task": "dates", "arms": arms, "set": {"data.size": 60}, **keys}
    return written(registry, **study, tuning={"seeds": 1, **dict(tuning)})


@pytest.mark.parametrize(
    ("best", "chosen", "trials", "edge"),
    [
        (0.001, 0.001, 3, {}),
        (0.1, 0.1, 5, {}),  # one beyond the largest, then one beyond that
        (1e-7, 1e-6, 5, {LR: "smallest"}),  # two more, and still at the end
    ],
)
def test_a_range_is_extended_as_long_as_its_end_is_best(registry, tmp_path, best, chosen, trials, edge):
    study = declared(tune=[f"{LR}=[0.0001, 0.001, 0.01]"], tuning=ONCE)
    arms, records = tune(study, registry, tmp_path, Trained(best))
    assert [arm.tuned[LR] for arm in arms] == pytest.approx([chosen] * 2)
    assert [arm.edges for arm in arms] == [edge] * 2
    assert [record["arm"] for record in records].count("baseline") == trials
    assert {record["seed"] for record in records} == {TUNING_SEED}


def test_a_size_beyond_those_tried_has_the_budget_of_all(registry, tmp_path):
    settings = ["model.ffn_width=512", "training.steps=800"]
    study = declared(
        "model.attention=[mha, mqa]",
        settings=settings,
        tune=["model.width=[128, 64]"],
        match="operations",
        tuning=ONCE,
    )

    def largest(cells):
        widths = [cell.ingredients["task"]["model"]["width"] for cell in cells]
        return [CellResult("", 1, loss=1 / width, metrics={"exact_match": width}) for width in widths]

    known = matched(resolve_arms(study, registry), study, str)
    arms, _ = tuned(known, study, RESULTS, tmp_path, largest, None)
    assert [arm.tuned["model.width"] for arm in arms] == [512, 512]
    budget = 800 * known[0].counted["flops"]
    for arm in arms:
        steps = arm.resolved.task.training.steps
        assert steps * arm.counted["flops"] == pytest.approx(budget, rel=0.5 / steps)
        assert steps < 800 / 4, "an update of four times the width has more than four times the operations"


def test_several_seeds_choose_by_their_mean(registry, tmp_path):
    study = tuning_study(registry, tune={LR: [0.001, 0.01, 0.1]}, tuning={"seeds": 2})
    lucky = Trained(0.01, {(0.001, TUNING_SEED): 0.15})
    arms, _ = tune(study, registry, tmp_path, lucky)
    assert {cell.seed for cell in lucky.cells} == {TUNING_SEED, TUNING_SEED + 1}
    assert [arm.tuned[LR] for arm in arms] == [0.01] * 2


def test_arms_tune_settings_of_their_own(registry, tmp_path):
    arms = {
        "adam": {
            "training.optimizer": {"name": "adamw"},
            "tune": {"training.optimizer.weight_decay": [0.0, 0.1, 0.2]},
        },
        "lion": {"training.optimizer": {"name": "lion"}},
    }
    study = tuning_study(registry, arms=arms, set={"data.size": 60, "training.optimizer.lr": 0.001})
    tried = [arm.tuned for arm in resolve_arms(study, registry)]
    assert tried == [{"training.optimizer.weight_decay": value} for value in (0.0, 0.1, 0.2)] + [{}]
    chosen, records = tune(study, registry, tmp_path, Trained(0.001))
    assert [arm.name for arm in chosen] == ["adam", "lion"]
    assert {record["arm"] for record in records} == {"adam"}


def test_a_number_of_trials_is_the_same_for_all_arms(registry):
    study = tuning_study(
        registry,
        tune={LR: [0.001, 0.002, 0.004, 0.008], "model.dropout": [0.0, 0.1, 0.2]},
        tuning={"trials": 5},
    )
    arms = resolve_arms(study, registry)
    tried = [[arm.tuned for arm in arms if arm.name == name] for name in ("mha", "mqa")]
    assert len(tried[0]) == 5
    assert tried[0] == tried[1]


@pytest.mark.parametrize("own", [3, {"x.y": 3}, {"x.y": []}, {"evaluation.metrics": [["chrf"]]}])
def test_a_wrong_tuning_of_an_arm_is_refused_at_its_place(registry, own):
    with pytest.raises(ConfigurationError, match=r"arms\.mqa\.tune"):
        tuning_study(registry, arms={"mha": {}, "mqa": {"model.attention": "mqa", "tune": own}})


def test_coordinates_change_one_setting_at_a_time(registry, tmp_path):
    tune = {LR: [0.0001, 0.001, 0.01], "training.optimizer.weight_decay": [0.3, 0.1, 0.2]}
    study = tuning_study(
        registry,
        set={"data.size": 60, "training.optimizer": {"name": "adamw"}},
        tune=tune,
        tuning={"strategy": "coordinate", "extend": 0},
    )
    arms, records = tuned(resolve_arms(study, registry), study, RESULTS, tmp_path, Trained(0.01), None)
    assert [list(arm.tuned.values()) for arm in arms] == [[0.01, 0.1]] * 2
    tried = [list(record["tuned"].values()) for record in records if record["arm"] == "mha"]
    first = [[0.0001, 0.3], [0.001, 0.3], [0.01, 0.3]]
    assert tried[:3] == first
    assert tried[3:5] == [[0.01, 0.1], [0.01, 0.2]]
    assert tried[5:] == [[0.0001, 0.1], [0.001, 0.1]], "until no change of the best is untried"


def test_halving_trains_the_better_half_longer(registry, tmp_path):
    study = declared(
        tune=[f"{LR}=[0.0001, 0.001, 0.01, 0.1]"],
        settings=["training.steps=40", "training.evaluate_every=20"],
        tuning={"strategy": "halving", "extend": 0, **ONCE},
    )
    trained = Trained(0.01)
    arms, records = tune(study, registry, tmp_path, trained)
    assert [arm.tuned[LR] for arm in arms] == [0.01, 0.01]
    assert [arm.edges for arm in arms] == [{}, {}], "a number that was left out early has been tried"
    steps = [
        cell.ingredients["task"]["training"]["steps"] for cell in trained.cells if cell.arm == "baseline"
    ]
    assert steps == [10] * 4 + [20] * 2 + [40]
    assert [record["share"] for record in records if record["arm"] == "baseline"] == [0.25] * 4 + [
        0.5
    ] * 2 + [1]
    assert arms[0].resolved.task.training.steps == 40


def test_halving_leaves_one_whole_training_of_any_number(registry, tmp_path):
    arms = {
        "many": {"tune": {LR: [10 ** (number / 4 - 3) for number in range(9)]}},
        "few": {"model.attention": "mqa", "tune": {LR: [0.001, 0.01, 0.1]}},
        "none": {"model.ffn_width": 32},
    }
    sizes = {"data.size": 60, "training.steps": 64, "training.schedule": "warmup_cosine"}
    study = tuning_study(registry, arms=arms, set=sizes, tuning={"strategy": "halving", "extend": 0})
    chosen, records = tune(study, registry, tmp_path, Trained(0.01))
    assert [arm.tuned.get(LR) for arm in chosen] == [0.01, 0.01, None]
    shares = {name: Counter(each["share"] for each in records if each["arm"] == name) for name in arms}
    assert shares["many"] == {1 / 16: 9, 1 / 8: 5, 1 / 4: 3, 1 / 2: 2, 1: 1}
    assert shares["few"] == {1 / 4: 3, 1 / 2: 2, 1: 1}


@pytest.mark.parametrize(
    ("schedule", "updates"),
    [
        ({"name": "warmup_cosine", "warmup_steps": 20}, "20 updates of `training.schedule.warmup_steps`"),
        ({"name": "wsd", "decay_steps": 30}, "30 updates of `training.schedule.decay_steps`"),
        ({"name": "noam"}, "4000 updates of `training.schedule.warmup_steps`"),
    ],
)
def test_halving_refuses_a_schedule_with_a_part_that_keeps_its_length(registry, tmp_path, schedule, updates):
    study = tuning_study(
        registry,
        set={"data.size": 60, "training.steps": 64, "training.schedule": schedule},
        tune={LR: [0.001, 0.01]},
        tuning={"strategy": "halving"},
    )
    trained = Trained(0.01)
    with pytest.raises(ConfigurationError, match=rf"tuning\.strategy: .*{updates}"):
        tune(study, registry, tmp_path, trained)
    assert trained.cells == []


def test_a_range_is_numbers_in_equal_ratios(registry):
    study = tuning_study(registry, tune={LR: {"from": 1e-4, "to": 1e-1, "points": 7}})
    assert study.tune[LR] == pytest.approx([10 ** (number / 2 - 4) for number in range(7)], rel=0.01)
    with pytest.raises(ConfigurationError, match="points"):
        tuning_study(registry, tune={LR: {"from": 1e-4, "to": 1e-1}})


def test_nothing_lies_beyond_0(registry, tmp_path):
    study = tuning_study(
        registry,
        set={"data.size": 60, "training.optimizer": {"name": "adamw", "lr": 0.01}},
        tune={"training.optimizer.weight_decay": [0.0, 0.1]},
    )
    arms, records = tune(study, registry, tmp_path, Trained(0.01))
    assert [(list(arm.tuned.values()), arm.edges) for arm in arms] == [([0.0], {})] * 2
    assert len(records) == 4


def test_every_seed_chooses_for_itself_by_its_own_validation(registry, tmp_path):
    study = declared(tune=[f"{LR}=[0.001, 0.01, 0.1]"], tuning={"extend": 0})
    trained = Trained(0.01, {(0.001, 2): 0.15, (0.1, 3): 0.15})
    arms, records = tune(study, registry, tmp_path, trained, 1, 2, 3)
    for arm in arms:
        chosen = {seed: choice.tuned[LR] for seed, choice in arm.choices.items()}
        assert chosen == {1: 0.01, 2: 0.001, 3: 0.1}
        assert arm.tuned == {}
        assert [choice.edges for choice in arm.choices.values()] == [{}, {LR: "smallest"}, {LR: "largest"}]
        cells = make_cells(arm, [1, 2, 3], tmp_path, {})
        assert {cell.name for cell in cells} < {cell.name for cell in trained.cells}, "nothing more to train"
        decide = [each for each in records if each["arm"] == arm.name and each["decides"]]
        assert {each["seed"]: each["tuned"][LR] for each in decide} == chosen
    assert len(trained.cells) == len(records) == 2 * 3 * 3
    record = arms[0].record()
    assert [(each["seeds"], each["tuned"]) for each in record["choices"]] == [
        ([seed], {LR: lr}) for seed, lr in chosen.items()
    ]
    assert record["choices"][1]["ends"] == {"2": {LR: "smallest"}}


def test_later_seeds_choose_beside_earlier_ones_and_extend_their_own_range(registry, tmp_path):
    study = declared(tune=[f"{LR}=[0.001, 0.01]"], tuning={"extend": 1})
    arms = resolve_arms(study, registry)
    trained = Trained(0.001, {(0.01, 2): 0.15})
    first, _ = tuned(arms, study, RESULTS, tmp_path, trained, None, [1])
    before = {arm.name: arm for arm in first}
    both, records = tuned(arms, study, RESULTS, tmp_path, trained, None, [2], before)
    assert {seed: arm.tuned[LR] for seed, arm in both[0].choices.items()} == {1: 0.001, 2: 0.01}
    tried = {seed: {cell.tried for cell in trained.cells if cell.seed == seed} for seed in (1, 2)}
    assert tried[1] - tried[2] == {f"{LR}=0.0001"}
    assert tried[2] - tried[1] == {f"{LR}=0.1"}
    assert {each["seed"] for each in records} == {2}


@pytest.mark.parametrize("strategy", ["coordinate", "halving"])
def test_every_seed_follows_the_strategy(registry, tmp_path, strategy):
    study = declared(
        tune=[f"{LR}=[0.001, 0.01, 0.1]"],
        settings=["training.steps=40", "training.evaluate_every=20"],
        tuning={"strategy": strategy, "extend": 0},
    )
    trained = Trained(0.01, {(0.001, 2): 0.15})
    arms, records = tune(study, registry, tmp_path, trained, 1, 2)
    chosen = {seed: choice.tuned[LR] for seed, choice in arms[1].choices.items()}
    assert chosen == {1: 0.01, 2: 0.001}
    assert sum(each["decides"] for each in records) == 4


def test_screening_before_seeds_choose_is_refused(registry):
    with pytest.raises(ConfigurationError, match=r"tuning\.seeds: .*screen"):
        tuning_study(registry, tune={LR: [0.001, 0.01]}, screen={"seeds": 2}, tuning={"seeds": "each"})


def test_coordinates_pass_over_values_that_cannot_be_together(registry, tmp_path):
    study = tuning_study(
        registry,
        tune={"model.heads": [2, 4], "model.width": [16, 18]},
        tuning={"strategy": "coordinate", "extend": 0},
    )

    def widest(cells):
        models = [cell.ingredients["task"]["model"] for cell in cells]
        scores = [model["width"] + model["heads"] for model in models]
        return [CellResult("", 1, loss=1 / score, metrics={"exact_match": score}) for score in scores]

    arms, _ = tuned(resolve_arms(study, registry), study, RESULTS, tmp_path, widest, None)
    assert [arm.tuned for arm in arms] == [{"model.heads": 4, "model.width": 16}] * 2


def test_equal_times_are_not_guessed_for_sizes_beyond_those_measured(registry, tmp_path):
    study = tuning_study(
        registry,
        tune={"model.width": [16, 32], LR: [0.001]},
        set={"data.size": 60, "training.steps": 5},
        match="time",
    )

    def largest(cells):
        widths = [cell.ingredients["task"]["model"]["width"] for cell in cells]
        return [CellResult("", 1, loss=1 / width, metrics={"exact_match": width}) for width in widths]

    arms, _ = tuned(resolve_arms(study, registry), study, RESULTS, tmp_path, largest, None)
    assert [arm.tuned["model.width"] for arm in arms] == [32, 32]
