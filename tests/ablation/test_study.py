"""Studies as they are written: files, options, and all mistakes with their places."""

import pytest
import yaml
from tests.ablation.studies import written

from plugformer.errors import ConfigurationError
from plugformer.registry import Registry
from plugformer_ablation.design.arms import designed, resolve_arms
from plugformer_ablation.design.reading import read_study

STUDY = """\
study: attention and positions on dates
task: dates
set: {training.steps: 600, model: {width: 64}}
factors:
  attention: {path: model.attention, values: [mha, {name: gqa, kv_heads: 2}, mqa]}
  position: {path: model.position, values: [learned, rope]}
seeds: 3
match: parameters
metric: exact_match
tune: {training.optimizer.lr: [0.001, 0.002], model.dropout: [0, 0.1]}
"""


@pytest.fixture
def file(tmp_path):
    def write(text):
        path = tmp_path / "study.yaml"
        path.write_text(text)
        return str(path)

    return write


def names(declared):
    return [name for name, _, _ in designed(declared)]


def test_a_study_names_manifests_relative_to_its_file(file, tmp_path, registry):
    for name in ("a", "b"):
        text = f"components: {{attention: {{{name}: {{class: '{name}:Mine'}}}}}}"
        (tmp_path / f"{name}.yaml").write_text(text)
    study = read_study(file("registry: [a.yaml, b.yaml]\n" + STUDY.replace("mqa]", "b]")))
    with pytest.raises(ConfigurationError, match="importing b"):
        resolve_arms(study, registry)


@pytest.mark.parametrize("effect", ["1.2.3 %", "0 %", "5", 0])
def test_an_effect_that_is_no_positive_number_or_share_is_refused(file, effect):
    with pytest.raises(ConfigurationError, match=r"study\.yaml.*smallest_effect"):
        read_study(file(f"smallest_effect: {effect!r}\n{STUDY}"))


@pytest.mark.parametrize("effect", [".5%", 0.2])
def test_an_effect_is_a_positive_number_or_share(file, effect):
    assert read_study(file(f"smallest_effect: {effect!r}\n{STUDY}")).smallest_effect == effect


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (
            "set: {",
            "set: {model.encoder.attention: gqa, ",
            r":5:47  model\.attention: model\.encoder\.attention, written at .*study\.yaml:3:32, would stay",
        ),
        (
            "path: model.position, values: [learned, rope]",
            "path: training.epochs, values: [1, 2]",
            r"'training\.epochs' replaces 'training\.steps' of set\.training\.steps, .*:3:23: keep one",
        ),
        (
            "  attention:",
            "  first: {path: model.decoder.attention, values: [mha, mqa]}\n  attention:",
            r":6:47  model\.attention: model\.decoder\.attention, written at .*study\.yaml:5:\d+, would stay",
        ),
    ],
)
def test_a_factor_may_not_replace_what_the_study_gives(file, registry, old, new, message):
    assert old in STUDY
    with pytest.raises(ConfigurationError, match=message):
        resolve_arms(read_study(file(STUDY.replace(old, new))), registry)


def test_a_study_changes_one_factor_of_the_baseline_at_a_time(file):
    assert names(read_study(file(STUDY))) == [
        "baseline",
        "attention=gqa(kv_heads=2)",
        "attention=mqa",
        "position=rope",
    ]


def test_a_grid_combines_all_values(file):
    assert names(read_study(file(STUDY + "design: grid\n"))) == [
        "baseline",
        "position=rope",
        "attention=gqa(kv_heads=2)",
        "attention=gqa(kv_heads=2), position=rope",
        "attention=mqa",
        "attention=mqa, position=rope",
    ]


def test_values_may_have_names(file):
    named = "values: {small: {width: 32, layers: 1}, deep: {width: 32, layers: 4}, wide: {width: 96}}"
    text = f"task: dates\nfactors:\n  size: {{path: model, {named}}}\n"
    declared = read_study(file(text))
    assert names(declared) == ["baseline", "size=deep", "size=wide"]
    assert [changes["size"].layers[0].value for _, _, changes in designed(declared)] == [
        {"model": {"width": 32, "layers": 1}},
        {"model": {"width": 32, "layers": 4}},
        {"model": {"width": 96}},
    ]


def test_options_go_above_the_file(file):
    study = read_study(file(STUDY), settings=["training.steps=5"], seeds=1)
    assert study.changes == {"training.steps": 5, "model": {"width": 64}}
    assert study.seed_list == [1]
    assert study.match == "parameters"


def test_settings_apply_the_shorter_path_first(file, registry):
    schedule = "training.schedule.warmup_steps: 7, training.schedule: warmup_cosine"
    arms = resolve_arms(read_study(file(STUDY.replace("set: {", f"set: {{{schedule}, "))), registry)
    assert {arm.resolved.task.training.schedule.options["warmup_steps"] for arm in arms} == {7}


def test_an_option_goes_above_a_longer_path_of_the_file(file, registry):
    longer = "model.encoder.layers: 4, training.schedule.warmup_steps: 7"
    given = file(STUDY.replace("set: {", f"set: {{{longer}, "))
    options = ["model.encoder={layers: 3}", "training.schedule=constant"]
    task = resolve_arms(read_study(given, settings=options), registry)[0].resolved.task
    assert task.model.encoder.layers == 3
    assert task.training.schedule.name == "constant"


def test_a_task_file_is_relative_to_the_study(file, tmp_path):
    declared = read_study(file(STUDY.replace("task: dates", "task: tasks/mine.yaml")))
    assert declared.task_path("") == str(tmp_path / "tasks/mine.yaml")


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("seeds: 3", "seed: 3", r"study\.yaml:7:1  seed: unknown key 'seed' \(did you mean"),
        ("seeds: 3", "seeds: [1, 1]", r":7:8  seeds: expected at least one seed, and each once"),
        ("task: dates\n", "", r"task: is missing"),
        (STUDY, "preset: wen\nseeds: 3\n", r"task: is missing"),
        ("model.dropout: [0, 0.1]", "model: {dropout: [0]}", r":10:\d+  tune\.model: should be a valid list"),
        (
            "path: model.position",
            "path: model.attention",
            r":6:20  .*is also changed by the factor 'attention'",
        ),
        ("path: model.position", "path: model.attention.bias", r"is also changed by the factor 'attention'"),
        ("path: model.position", "path: training.seed", r"write the seeds under `seeds`"),
        ("path: model.position", "path: evaluation.limit", r"must be the same for all"),
        ("path: model.position", "path: model.ffn_width", r"`match: parameters`: write"),
        ("training.steps: 600", "training.seed: 6", r":3:\d+  .*write the seeds under `seeds`"),
        ("training.steps: 600", "model.position: rope", r"has no effect: the factor 'position'"),
        ("model.dropout: ", "model.attention: ", r"is also changed by tune 'model.attention'"),
    ],
)
def test_a_mistake_is_told_with_its_place(file, old, new, message):
    assert old in STUDY
    with pytest.raises(ConfigurationError, match=message):
        read_study(file(STUDY.replace(old, new)))


def test_a_mistake_in_an_option_quotes_it():
    with pytest.raises(ConfigurationError, match=r"--swap model\.attention=mha  factors\.attention\.values"):
        read_study("dates", swaps=["model.attention=mha"])


@pytest.mark.parametrize(
    ("option", "values"),
    [("settings", ["5", "6"]), ("swaps", ["[5, 6]", "[7, 8]"]), ("tune", ["[5, 6]", "[5, 6]"])],
)
def test_an_option_that_is_given_twice_for_a_key_is_refused(option, values):
    given = {"swaps": ["model.attention=[mha, gqa]"]}
    given[option] = [*given.get(option, []), *(f"training.steps={value}" for value in values)]
    with pytest.raises(
        ConfigurationError, match=r"steps=.*  training\.steps: is set twice; also by --\w+ .*5"
    ):
        read_study("dates", **given)


def test_a_task_without_factors_is_no_study(file):
    with pytest.raises(ConfigurationError, match="dates is a task, and nothing is compared"):
        read_study("dates")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seeds": 10_000}, r"20,000 trainings, expected at most 10,000"),
        ({"tune": [f"model.a{key}=[1, 2]" for key in range(40)]}, r"trainings, expected at most 10,000"),
    ],
)
def test_more_trainings_than_anybody_makes_are_refused_at_once(options, message):
    with pytest.raises(ConfigurationError, match=message):
        read_study("dates", swaps=["model.attention=[mha, mqa]"], **options)


def test_one_setting_after_the_other_counts_as_such():
    """All combinations of six settings with five values would be 15,625 for each arm."""
    keys = ("lr", "weight_decay", "beta1", "beta2", "eps", "momentum")
    tune = [f"training.optimizer.{key}=[1, 2, 3, 4, 5]" for key in keys]
    with pytest.raises(ConfigurationError, match="trainings, expected at most"):
        read_study("dates", swaps=["model.attention=[mha, mqa]"], tune=tune)
    study = {"task": "dates", "arms": ARMS, "tune": {key.partition("=")[0]: [1, 2, 3, 4, 5] for key in tune}}
    assert written(NOTHING, **study, tuning={"strategy": "coordinate"}).tunes


def test_a_dict_says_the_same_as_a_file(file):
    assert written(NOTHING, **yaml.safe_load(STUDY)).model_dump() == read_study(file(STUDY)).model_dump()


NOTHING = Registry([])
"""No component is installed."""

ARMS = {"mha": {}, "gqa": {"model": {"attention": {"name": "gqa", "kv_heads": 2}}, "model.norm": "rms_norm"}}


def test_arms_are_settings_with_a_name(registry):
    study = written(NOTHING, task="dates", arms=ARMS, seeds=2)
    assert study.title == "dates: mha, gqa"
    mha, gqa = resolve_arms(study, registry)
    assert (mha.name, mha.baseline, gqa.name, gqa.baseline) == ("mha", None, "gqa", "mha")
    assert gqa.resolved.task.model.attention.options["kv_heads"] == 2
    assert gqa.resolved.task.model.norm.name == "rms_norm"
    assert gqa.values == {"arm": "gqa"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"arms": {"mha": {}}}, r"arms: expected at least two arms"),
        ({"arms": {}}, r"expected either `factors` or `arms`"),
        (
            {"arms": {"a": {}, "b": {"training": {"seed": 2}}}},
            r"arms\.b: 'training\.seed' is given by",
        ),
        ({"arms": {"a": {}, "b": {"evaluation": {"limit": 2}}}}, r"arms\.b: .*must be the same for all"),
        ({"tune": {"model.norm": ["rms_norm"]}}, r"arms\.gqa: .*also changed by tune 'model\.norm'"),
        ({"set": {"model.width": object}}, r"'object'> is a class, and no component belongs here"),
    ],
)
def test_a_mistake_in_a_dict_is_located(change, message):
    with pytest.raises(ConfigurationError, match=message):
        written(NOTHING, **{"task": "dates", "arms": ARMS, **change})


def test_a_preset_is_below_what_the_study_says(file):
    study = read_study(file("preset: wortsman\ntask: brackets\narms: {a: {}, b: {}}\nseeds: 2\n"))
    assert (study.match, study.seeds, study.tuning.extend) == ("parameters", 2, 0)
    assert len(study.tune["training.optimizer.lr"]) == 7
    assert len(study.scales) == 3
    with pytest.raises(ConfigurationError, match=r"preset: unknown preset 'wortman' \(did you mean"):
        read_study(file("preset: wortman\ntask: brackets\n"))


@pytest.mark.parametrize("preset", ["narang", "wortsman", "wen", "isoflop", "mad", "speedrun"])
def test_presets_are_sound(preset, file):
    study = read_study(file(f"preset: {preset}\ntask: brackets\narms: {{a: {{}}, b: {{}}}}\n"))
    assert study.preset == preset


@pytest.mark.parametrize("name", ["scale", "task"])
def test_a_factor_may_not_have_the_name_of_a_context(registry, name):
    factors = {name: {"path": "model.attention", "values": ["mha", "mqa"]}}
    with pytest.raises(ConfigurationError, match=f"factors.{name}: .*another name"):
        written(registry, task="dates", factors=factors)


def test_a_swap_of_a_setting_of_such_a_name_has_its_whole_path():
    study = read_study("dates", swaps=["model.embeddings.scale=[true, false]"])
    assert [*study.factors] == ["model.embeddings.scale"]


def test_what_an_arm_tunes_is_not_what_matching_changes(registry):
    arms = {"mha": {}, "mqa": {"model.attention": "mqa", "tune": {"model.ffn_width": [64, 128]}}}
    with pytest.raises(ConfigurationError, match=r"model\.ffn_width' is changed by `match: parameters`"):
        written(registry, task="dates", arms=arms, match="parameters", tuning={"seeds": 1})
