"""Types of tasks, architectures, heads, metrics and settings that do not fit together are refused."""

import pytest

from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.validation import validate
from plugformer_plugins.tokenizer.subwords import BPE

BASE = """\
type: sequence-to-sequence
data: {name: dates}
tokenizer: characters
model: {architecture: encoder-decoder, width: 16, heads: 2, head: language_model}
"""
CLASSIFIER = """\
type: classification
model: {architecture: encoder-only, head: classifier, embeddings: {shared: false}}
"""


@pytest.fixture
def validated(tmp_path, registry):
    """Validates a task that extends another."""
    (tmp_path / "base.yaml").write_text(BASE)

    def validated(text):
        (tmp_path / "top.yaml").write_text(f"extends: base.yaml\n{text}\n")
        return validate(resolve(str(tmp_path / "top.yaml"), registry=registry))

    return validated


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "model: {architecture: encoder-only}",
            r"top.yaml:2:23  model.architecture: 'encoder-only'.*'encoder-decoder'",
        ),
        ("model: {max_length: 1}", r"top.yaml:2:21  model.max_length: 1"),
        (CLASSIFIER.replace("head: c", "max_length: 2, head: c"), r"top.yaml:3:49  model.max_length: 2"),
        ("type: classification", r"base.yaml:4:67  model.head: head 'language_model'.*'classifier'"),
        (
            "type: tagging\nmodel: {architecture: encoder-only}",
            r"base.yaml:4:67  model.head: head 'language_model' predicts text or tokens, .* tags",
        ),
        (CLASSIFIER, r"base.yaml:2:14  data.name: the data has source and target"),
        (f"{CLASSIFIER}decoding: {{name: beam}}", r"top.yaml:4:18  decoding.name: "),
        (
            f"{CLASSIFIER}evaluation: {{metrics: [accuracy, tag_accuracy]}}",
            r"top.yaml:4:34  evaluation.metrics.1: metric 'tag_accuracy'.*'accuracy'",
        ),
        (
            "type: masked-language-modelling\nmodel: {architecture: encoder-only}\n"
            "evaluation: {metrics: [bits_per_character]}",
            r"top.yaml:4:24  evaluation.metrics.0: metric 'bits_per_character'.*expected (?!.*bits_per)",
        ),
        (CLASSIFIER.replace("}}", ", tied: true}}"), r"top.yaml:3:\d+  model.embeddings.tied: "),
        (
            CLASSIFIER.replace("shared: false", "shared: true, tied: false"),
            r"top.yaml:3:\d+  model.embeddings.shared: .*'encoder-only'",
        ),
        (
            CLASSIFIER.replace("}}", "}, decoder: {layers: 2}}"),
            r"top.yaml:3:\d+  model.decoder: .*'encoder-only' has no decoder",
        ),
        (f"{CLASSIFIER}decoding: {{length: 3}}", r"top.yaml:4:20  decoding.length: "),
        (f"{CLASSIFIER}decoding: {{pattern: '[a-z]+'}}", r"top.yaml:4:\d+  decoding.pattern: "),
    ],
)
def test_what_does_not_fit_is_located(validated, text, message):
    with pytest.raises(ConfigurationError, match=message):
        validated(text)


def test_texts_that_are_joined_are_not_cut_anew(validated, monkeypatch):
    monkeypatch.setattr(BPE, "sampling", lambda self, generator: self)
    validated("tokenizer: bpe")
    with pytest.raises(
        ConfigurationError,
        match=r"top.yaml:\d+:\d+  tokenizer.source: tokenizer 'bpe' cuts texts differently",
    ):
        validated("type: language-modelling\nmodel: {architecture: decoder-only}\ntokenizer: bpe")


def test_a_metric_that_cannot_be_loaded_is_not_offered(validated, registry, tmp_path):
    """Nor does it keep the others from being offered."""
    (tmp_path / "registry.yaml").write_text(
        "components: {metric: {broken: {class: 'no_such_module:Metric'}}}"
    )
    (tmp_path / "top.yaml").write_text("extends: base.yaml\nevaluation: {metrics: [tag_accuracy]}\n")
    local = registry.with_local(tmp_path / "registry.yaml")
    with pytest.raises(ConfigurationError, match=r"answers with text; expected .*'bleu'") as caught:
        validate(resolve(str(tmp_path / "top.yaml"), registry=local))
    assert "broken" not in str(caught.value)


def test_data_that_refuse_their_options_are_located_with_all_else(validated):
    with pytest.raises(ConfigurationError) as caught:
        validated("data: {name: hub, dataset: a/b/c}\ntype: classification")
    places = [line.partition(": ")[0] for line in str(caught.value).splitlines()]
    assert [place.rpartition("  ")[2] for place in places] == ["model.head", "data"]
