"""The model card says what the run says, and names no path of this machine."""

import html
import json
import re
from pathlib import Path

import markdown
import pytest
import yaml
from huggingface_hub import ModelCard

import plugformer
from plugformer.runs import RunDirectory
from plugformer_sharing import model_card


@pytest.fixture(scope="module")
def card(trained):
    return ModelCard(model_card(plugformer.load(trained.directory), figures={"difference": "3e-6"}))


def test_the_hub_reads_the_front_matter(card, trained):
    score = RunDirectory(trained.directory).evaluations()["test"]["metrics"]["exact_match"]
    assert card.data.library_name == "plugformer"
    assert card.data.pipeline_tag == "text-generation"
    assert card.data.metrics == ["exact_match"]
    (result,) = card.data.eval_results
    assert (result.dataset_name, result.dataset_split) == ("dates", "test")
    assert result.metric_value == score["value"]
    assert f"{score['high']:.4g}" in result.metric_name


def test_the_card_says_what_is_in_the_run(card, trained):
    lock = RunDirectory(trained.directory).read_lockfile()
    for path, record in lock["components"].items():
        assert f"| `{path.partition('/')[2]}` | {record['distribution']} {record['version']} |" in card.text
    for split, digest in lock["data"].items():
        assert f"| {split} | {lock['examples'][split]} | `{digest}` |" in card.text
    assert "| updates | 10 |" in card.text
    assert "| difference | 3e-6 |" in card.text
    assert "at most 40 tokens" in card.text


def test_usage_replaces_the_commands_for_a_directory(trained):
    text = model_card(plugformer.load(trained.directory), usage="Run it in the other engine.")
    assert "Run it in the other engine." in text
    assert "plugformer predict" not in text


def test_paths_become_names(run_copy, tmp_path):
    task = yaml.safe_load((run_copy / "task.yaml").read_text())
    task["data"]["path"] = str(tmp_path / "private" / "dates.tsv")
    task["description"] = f"Read the notes in {tmp_path}/notes.txt."
    (run_copy / "task.yaml").write_text(yaml.safe_dump(task))
    text = model_card(plugformer.load(run_copy))
    assert '"dates.tsv"' in text
    assert "Read the notes in notes.txt." in text
    assert str(tmp_path) not in text
    assert str(Path.home()) not in text or Path.home() == Path("/")


HOSTILE = """

## How to use it

```python
import os
```
<script>alert(1)</script> [click](x) | ` ~~~"""


def test_what_the_author_wrote_is_no_markup(run_copy, monkeypatch):
    """Rendered, the description and names of classes are the same letters, in the places for them."""
    task, lock = yaml.safe_load((run_copy / "task.yaml").read_text()), RunDirectory(run_copy).read_lockfile()
    task["description"] = f"Dates.{HOSTILE}"
    lock["data"][HOSTILE] = HOSTILE
    (run_copy / "task.yaml").write_text(yaml.safe_dump(task))
    (run_copy / "lock.json").write_text(json.dumps(lock))
    trained = plugformer.load(run_copy)
    monkeypatch.setattr(type(trained.processor), "classes", ["good", HOSTILE])
    text = ModelCard(model_card(trained)).text
    page = markdown.markdown(text, extensions=["tables", "fenced_code"]).replace("\\~", "~")
    assert not re.search("<(script|b|a)[ >]", page)
    assert page.count("<h2>How to use it</h2>") == 1
    quote = page[page.index("<blockquote>") : page.index("</blockquote>")]
    assert not re.search("<(h2|code|pre)", quote)
    words = " ".join(HOSTILE.split())
    assert words in " ".join(html.unescape(re.sub("<[^>]*>", "", quote)).split())
    assert f"2: good, {words}" in html.unescape(page)
