"""`plugformer validate` and `schema`."""

import json

BROKEN = ["--set", "model.atention=gqa", "--set", "training.steps=none"]


def test_a_sound_task_is_summed_up_on_one_line(run):
    outcome = run("validate", "dates", "--set", "model.attention=gqa", "--set", "model.decoder.layers=3")
    assert (outcome.status, outcome.err) == (0, "")
    assert outcome.out.startswith(
        "OK  sequence-to-sequence on dates: encoder-decoder, width 128, 2+3 layers of 4"
    )
    assert "gqa" in outcome.out
    assert outcome.out.count("\n") == 1


def test_all_mistakes_are_printed_with_their_places(run):
    outcome = run("validate", "dates", *BROKEN)
    assert (outcome.status, outcome.out) == (2, "")
    assert "--set model.atention=gqa  model.atention: unknown key 'atention' (did you mean" in outcome.err
    assert "--set training.steps=none  training.steps: expected" in outcome.err


def test_mistakes_as_json_have_their_hints_with_them(run):
    outcome = run("validate", "dates", *BROKEN, "--json")
    assert (outcome.status, outcome.err) == (2, "")
    record = json.loads(outcome.out)
    assert record["valid"] is False
    assert len(record["problems"]) == 2
    assert any("\n  known: architecture" in problem for problem in record["problems"])


def test_a_sound_task_as_json(run):
    assert json.loads(run("validate", "dates", "--json").out) == {"valid": True, "problems": []}


def test_notices_go_to_standard_error(run, tmp_path):
    (tmp_path / "base.yaml").write_text("extends: dates\nmodel: {encoder: {attention: gqa}}\n")
    outcome = run("validate", "./base.yaml", "--set", "model.attention=mqa", "--json")
    assert json.loads(outcome.out)["valid"] is True
    assert "model.encoder.attention" in outcome.err


def test_schema_is_json_with_the_components_of_a_local_manifest(run, manifest):
    file = manifest('components: {norm: {mine: {class: "plugformer_plugins.norm.layer_norm:LayerNorm"}}}')
    outcome = run("schema", "--registry", str(file))
    schema = json.loads(outcome.out)
    assert schema["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert '"mine"' in outcome.out
