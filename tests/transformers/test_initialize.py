"""Weights of Transformers decide settings and give the same scores; adapters leave a plain run."""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers

from plugformer import load, resume, train
from plugformer.configuration import resolve
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.runs import own_tensors

TEXTS = ["the quick brown fox", "a new house and a low dog", "new words are low"] * 3
SPECIAL = ["[PAD]", "x", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
NAMES = {
    "pad_token": "[PAD]",
    "unk_token": "[UNK]",
    "cls_token": "[CLS]",
    "sep_token": "[SEP]",
    "mask_token": "[MASK]",
}


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    transformers = pytest.importorskip("transformers")
    transformers.utils.logging.disable_progress_bar()
    folder = tmp_path_factory.mktemp("bert")
    pipeline = Tokenizer(models.BPE())
    pipeline.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    pipeline.decoder = decoders.ByteLevel()
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    pipeline.train_from_iterator(
        TEXTS,
        trainers.BpeTrainer(
            vocab_size=280, special_tokens=SPECIAL, initial_alphabet=alphabet, show_progress=False
        ),
    )
    fast = transformers.PreTrainedTokenizerFast(tokenizer_object=pipeline, **NAMES)
    fast.save_pretrained(folder)
    torch.manual_seed(1)
    sizes = {"hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2, "num_attention_heads": 4}
    config = transformers.BertConfig(
        vocab_size=283, max_position_embeddings=64, initializer_range=0.3, **sizes
    )
    model = transformers.BertForMaskedLM(config).eval()
    model.save_pretrained(folder)
    return folder, model


def task(folder, **model):
    return {
        "type": "classification" if "head" in model else "masked-language-modelling",
        "model": {"initialize_from": {"transformers": str(folder)}, **model},
        "data": "memory",
        "training": {"steps": 4, "evaluate_every": 2, "batch_size": 4},
    }


def rows(label):
    rows = [{"text": text, **({"label": "ab"[at % 2]} if label else {})} for at, text in enumerate(TEXTS)]
    return {"train": rows, "validation": rows}


def test_logits_are_those_of_transformers(bert, tmp_path):
    folder, theirs = bert
    written = task(folder)
    written["training"] |= {"steps": 1, "optimizer": {"name": "adam", "lr": 1e-30}}
    run = train(written, data=rows(False), out=tmp_path / "run", notify=str)
    model, tokenizer = run.model.eval(), run.processor.source
    inputs = tokenizer.encode(["the fox", "a new lazy dog"])
    batch = model.batch(inputs=inputs, targets=[[0] * len(row) for row in inputs])
    numbers = torch.tensor(tokenizer.vocabulary.tokens)
    with torch.no_grad():
        found = model.logits(batch)
        ids, mask = numbers[batch.source.ids], batch.source.mask.long()
        expected = theirs(input_ids=ids, attention_mask=mask).logits[..., numbers]
    real = batch.source.mask
    torch.testing.assert_close(found[real], expected[real], atol=1e-5, rtol=0)


@pytest.mark.parametrize(
    ("setting", "path"),
    [
        ({"width": 64}, "model.width"),
        ({"attention": "mqa"}, "model.attention.name"),
        ({"encoder": {"per_layer": {1: {"feed_forward": "relu"}}}}, "per_layer.1.feed_forward"),
    ],
)
def test_a_setting_that_contradicts_the_weights_is_refused(bert, setting, path):
    with pytest.raises(ConfigurationError, match=path):
        resolve(task(bert[0], **setting))


class Stop:
    @hookimpl
    def checkpoint_saved(self, step):
        if step == 2:
            raise KeyboardInterrupt


def test_adapters_resume_exactly_and_leave_a_plain_run(bert, tmp_path):
    written = task(bert[0], head={"name": "classifier", "pooling": "first", "hidden": 32})
    written["training"]["hooks"] = [{"name": "lora", "rank": 2}]
    whole = train(written, data=rows(True), out=tmp_path / "whole", notify=str)
    with pytest.raises(KeyboardInterrupt):
        train(written, data=rows(True), out=tmp_path / "half", notify=str, observers=[Stop()])
    again = resume(tmp_path / "half", data=rows(True), notify=str)
    expected = own_tensors(whole.model)
    for other in (again, load(tmp_path / "half")):
        found = own_tensors(other.model)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[name], expected[name]) for name in expected)
