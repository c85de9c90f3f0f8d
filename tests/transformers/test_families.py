"""Every family in both directions: the same scores, and the same parameters after a round trip."""

import pytest
import torch
from tests.transformers.conftest import SPECIAL, rows_of, task_of

from plugformer import load, train
from plugformer.errors import ConfigurationError
from plugformer.hooks import hookimpl
from plugformer.runs import own_tensors
from plugformer_export.transformers import Transformers
from plugformer_export.verification import verified
from plugformer_transformers.folder import Folder


class First:
    """Keeps the values before the first update, and stops."""

    @hookimpl
    def run_started(self, run):
        self.values = {name: each.clone() for name, each in own_tensors(run.model).items()}
        raise KeyboardInterrupt


@pytest.mark.parametrize("family", SPECIAL)
def test_a_round_trip_keeps_parameters_and_scores(pretrained, tmp_path, family):
    folder, theirs = pretrained(family)
    rows, first = rows_of(family), First()
    train(task_of(family, folder), data=rows, out=tmp_path / "run", notify=str)
    trained = load(tmp_path / "run", device="cpu")
    found = verified(trained, Transformers(), tmp_path / "out", data=rows["validation"])
    assert found.difference < 1e-5
    assert found.equal == found.examples

    exported = type(theirs).from_pretrained(tmp_path / "out").eval()
    ids = torch.arange(10, 40).view(2, 15)
    inputs = {"input_ids": ids, **({"decoder_input_ids": ids + 1} if len(trained.model.stacks) > 1 else {})}
    with torch.no_grad():
        expected, again = (model(**inputs).logits[..., :250] for model in (theirs, exported))
    torch.testing.assert_close(again, expected, atol=1e-5, rtol=0)

    with pytest.raises(KeyboardInterrupt):
        train(
            task_of(family, tmp_path / "out"),
            data=rows,
            out=tmp_path / "again",
            notify=str,
            callbacks=[first],
        )
    parameters = own_tensors(trained.model)
    assert first.values.keys() == parameters.keys()
    assert [name for name in parameters if not torch.equal(first.values[name], parameters[name])] == []


def test_special_tokens_that_training_sets_apart_become_tokens_of_their_own(pretrained, tmp_path):
    rows = rows_of("gpt2")
    train(task_of("gpt2", pretrained("gpt2")[0]), data=rows, out=tmp_path / "run", notify=str)
    trained, first = load(tmp_path / "run", device="cpu"), First()
    embedding = trained.model.get_parameter("decoder.embedding.weight")
    with torch.no_grad():
        embedding[:4] += torch.arange(4.0)[:, None]
    before = trained.processor.source.size
    found = verified(trained, Transformers(), tmp_path / "out", data=rows["validation"])
    assert found.equal == found.examples
    with pytest.raises(KeyboardInterrupt):
        train(task_of("gpt2", tmp_path / "out"), data=rows, out=tmp_path / "b", notify=str, callbacks=[first])
    assert Folder.open(str(tmp_path / "out")).named.keys() == {"pad", "unk", "bos", "eos"}
    assert Folder.open(str(tmp_path / "out")).size == before
    assert torch.equal(first.values["decoder.embedding.weight"], embedding)


def test_a_pickle_is_never_read(pretrained, tmp_path):
    folder, _ = pretrained("bert")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    (tmp_path / "pytorch_model.bin").write_bytes(b"a pickle")
    with pytest.raises(ConfigurationError, match=r"pytorch_model\.bin, a pickle.*expected safetensors"):
        Folder.open(str(tmp_path)).tensors()


def test_a_folder_without_a_tokenizer_is_refused(pretrained, tmp_path):
    folder, _ = pretrained("bert")
    (tmp_path / "config.json").write_bytes((folder / "config.json").read_bytes())
    with pytest.raises(ConfigurationError, match=r"no tokenizer\.json.*save_pretrained"):
        train(task_of("bert", tmp_path), data=rows_of("bert"), out=tmp_path / "run", notify=str)
