"""`plugformer push` and `hub:NAME`: a run goes to the Hub and answers from there as it did before."""

import json

import pytest
import yaml
from tests.sharing.conftest import TOKEN

import plugformer
from plugformer.errors import RunError
from plugformer.runs import load_tensors
from plugformer_sharing.publishing import publication, push

PUBLISHED = {
    *("README.md", "evaluation.json", "learned.json", "lock.json", "metrics.jsonl", "model.safetensors"),
    *("self_check.json", "task.yaml", "tokenizer-shared.json"),
}
TEXTS = ["March 5, 1996", "7/4/76"]


@pytest.fixture
def published(hub, trained, monkeypatch):
    """The Hub with a run `me/dates`, and somebody who is not logged in."""
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    push(
        publication(plugformer.load(trained.directory), "hub:me/dates"),
        "me/dates",
        private=False,
    )
    monkeypatch.delenv("HF_TOKEN")
    return hub


def test_what_was_pushed_answers_like_the_directory(published, trained):
    assert set(published.files["me/dates"]) == PUBLISHED
    loaded = plugformer.load("hub:me/dates")
    assert loaded.predict(TEXTS) == plugformer.load(trained.directory).predict(TEXTS)
    assert loaded.evaluate().metrics == plugformer.load(trained.directory).evaluate().metrics
    assert b"plugformer predict hub:me/dates" in published.files["me/dates"]["README.md"]


def test_commands_take_it_like_a_directory(published, trained, command):
    local = command("predict", str(trained.directory), *TEXTS)
    assert command("predict", "hub:me/dates@main", *TEXTS)[:2] == (0, local[1])
    assert command("info", "hub:me/dates")[1].count("EncoderDecoderModel") == 1


def test_nothing_is_downloaded_that_could_be_executed(published):
    files = published.files["me/dates"]
    files |= {"component.py": b"raise SystemExit", "pytorch_model.bin": b"\x80", "registry.yml": b""}
    files |= {"checkpoints/step-00000001/training.safetensors": b"large"}
    plugformer.load("hub:me/dates")
    assert set(published.served) == PUBLISHED


def test_the_cache_answers_without_network(published, trained):
    before = plugformer.load("hub:me/dates").predict(TEXTS)
    published.shutdown()
    published.server_close()
    assert plugformer.load("hub:me/dates").predict(TEXTS) == before


def test_a_missing_plugin_is_named_and_not_downloaded(published):
    files = published.files["me/dates"]
    lock = json.loads(files["lock.json"])
    del lock["components"]["attention/mha"]
    lock["components"]["attention/hydra"] = {
        "distribution": "plugformer-hydra",
        "version": "3.1",
        "source": "",
    }
    files["lock.json"] = json.dumps(lock).encode()
    files["task.yaml"] = files["task.yaml"].replace(b"name: mha", b"name: hydra")
    with pytest.raises(RunError, match=r"attention/hydra of plugformer-hydra 3\.1"):
        plugformer.load("hub:me/dates")


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("hub:me/other", "no such repository, or it is private"),
        ("hub:me/dates@v9", "has no revision 'v9'"),
        ("hub:me/da tes", "no name of a repository"),
        ("hub:me/empty", r"the repository has no task\.yaml"),
    ],
)
def test_what_cannot_be_loaded(published, command, name, words):
    published.files["me/empty"], published.private["me/empty"] = {"config.json": b"{}"}, False
    status, _, err = command("predict", name, "a")
    assert status == 2
    assert f"Error: {name}" in err
    with pytest.raises(RunError, match=words):
        plugformer.load(name)


def test_a_private_run_needs_the_token(published, monkeypatch):
    published.private["me/dates"] = True
    with pytest.raises(RunError, match="set HF_TOKEN"):
        plugformer.load("hub:me/dates")
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    assert plugformer.load("hub:me/dates").predict(TEXTS)


def test_without_network_and_cache(hub):
    hub.shutdown()
    hub.server_close()
    with pytest.raises(RunError, match="cannot be reached, and the run is not in the cache"):
        plugformer.load("hub:me/dates")


def test_the_command_pushes(hub, trained, command, monkeypatch):
    status, _, err = command("push", str(trained.directory), "me/dates")
    assert (status, "hf auth login" in err, hub.files) == (2, True, {})
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    stated = ("--private", "--license", "apache-2.0", "--language", "en", "--language", "de", "--json")
    status, out, err = command("push", str(trained.directory), "me/dates", *stated)
    assert (status, hub.private) == (0, {"me/dates": True})
    assert set(json.loads(out)["files"]) == set(hub.files["me/dates"]) == PUBLISHED
    card = next(yaml.safe_load_all(hub.files["me/dates"]["README.md"]))
    assert (card["license"], card["language"]) == ("apache-2.0", ["en", "de"])
    assert f"{hub.address}/me/dates" in err


def test_a_dry_run_and_a_folder_need_no_network(hub, trained, command, tmp_path):
    hub.shutdown()
    status, out, _ = command("push", str(trained.directory), "me/dates", "--dry-run", "--json")
    assert (status, set(json.loads(out)["files"])) == (0, PUBLISHED)
    assert command("push", str(trained.directory), "--to", "mine", "--checkpoints")[0] == 0
    names = {file.relative_to(tmp_path / "mine").as_posix() for file in (tmp_path / "mine").rglob("*.*")}
    steps = {name for name in names if name.count("/") == 2}
    assert names - steps == PUBLISHED
    assert {name.rpartition("/")[2] for name in steps} == {
        "model.safetensors",
        "training.safetensors",
        "state.json",
    }
    assert plugformer.load("mine").predict(TEXTS) == plugformer.load(trained.directory).predict(TEXTS)
    assert load_tensors(tmp_path / "mine/model.safetensors")
    status, _, err = command("push", str(trained.directory), "--to", "mine")
    assert (status, "mine exists already" in err) == (2, True)


@pytest.mark.parametrize("name", ["lock.json", "model.safetensors", "checkpoints", "more/deep.txt"])
def test_links_are_refused(run_copy, command, tmp_path, name):
    file, outside = run_copy / name, tmp_path / "outside"
    file.parent.mkdir(exist_ok=True)
    if file.exists():
        file.rename(outside)
    file.symlink_to(outside)
    status, _, err = command("push", str(run_copy), "--to", "mine", "--checkpoints")
    assert (status, f"{file} is a symbolic link" in err, (tmp_path / "mine").exists()) == (2, True, False)


@pytest.mark.parametrize("content", [b"\x80\x04\x95", b"[1"])
def test_a_damaged_checkpoint_is_refused(run_copy, command, tmp_path, content):
    file = max(run_copy.glob("checkpoints/*/state.json"))
    file.write_bytes(content)
    status, _, err = command("push", str(run_copy), "--to", "mine", "--checkpoints")
    assert (status, f"{file} is damaged" in err, (tmp_path / "mine").exists()) == (2, True, False)


def test_half_a_line_that_a_crash_has_left_in_the_log_is_no_obstacle(run_copy):
    with (run_copy / "metrics.jsonl").open("ab") as file:
        file.write('{"event": "é'.encode()[:-1])
    files = publication(plugformer.load(run_copy), "hub:me/dates")
    assert {*files.files} == PUBLISHED


def test_only_tokenizers_of_the_run_are_published(run_copy):
    for name in ("tokenizer-target.json", "tokenizer-secret.json"):
        (run_copy / name).write_text("{}")
    files = publication(plugformer.load(run_copy), "hub:me/dates")
    assert {*files.files} == PUBLISHED


def test_a_run_of_the_hub_is_pushed_again_unless_a_link_leaves_its_cache(published, tmp_path):
    trained = plugformer.load("hub:me/dates")
    assert {*publication(trained, "hub:me/more").files} == PUBLISHED
    (tmp_path / "outside").write_text("{}")
    (trained.place / "self_check.json").unlink()
    (trained.place / "self_check.json").symlink_to(tmp_path / "outside")
    with pytest.raises(RunError, match=r"self_check\.json is a symbolic link"):
        publication(trained, "hub:me/more")


@pytest.mark.parametrize("where", [(), ("me/dates", "--to", "mine")])
def test_one_place_is_needed(trained, command, where):
    status, _, err = command("push", str(trained.directory), *where)
    assert (status, "give NAME" in err) == (2, True)
