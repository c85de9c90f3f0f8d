"""Task files and manifests, damaged or made up: read, or refused with a place."""

import inspect
from pathlib import Path

import pytest
import yaml
from hypothesis import strategies as st
from tests.fuzzing.mutation import YAML_TOKENS, altered, as_json, damaged, documents

from plugformer.configuration import dump, resolve
from plugformer.configuration.overrides import read_overrides
from plugformer.kinds import Kind
from plugformer.registry import Registry
from plugformer.registry.manifest import parse
from plugformer.validation import validate
from plugformer.yaml_tree import read_mapping

ROOT = Path(__file__).parents[2]
TASKS = sorted(ROOT.glob("tasks/plugformer_tasks/**/*.yaml"))
MANIFESTS = [ROOT / "registry.yaml", *ROOT.glob("examples/*/**/registry.yaml")]


def words_of(tree: object) -> set[str]:
    """Returns all keys and texts of a document."""
    if isinstance(tree, dict):
        return {str(key) for key in tree}.union(*map(words_of, tree.values()))
    if isinstance(tree, list):
        return set().union(*map(words_of, tree))
    return {tree} if isinstance(tree, str) else set()


@pytest.fixture(scope="module")
def whole(registry):
    """The task `dates` with every default written out."""
    return yaml.safe_load(dump(validate(resolve("dates", [], registry)).task))


def words(*trees: object) -> list[str]:
    return sorted(set().union(*map(words_of, trees)))


def test_any_bytes_as_a_document(fuzz, tmp_path):
    originals = [path.read_bytes() for path in (*TASKS, *MANIFESTS)]
    cases = st.binary(max_size=60) | st.text(max_size=60).map(str.encode) | damaged(originals, YAML_TOKENS)
    fuzz(cases, lambda content: read_mapping(content, "fuzzed.yaml", tmp_path))


def test_damaged_task_files(fuzz, registry, tmp_path):
    """Up to the structure and the names: nothing is imported."""
    file = tmp_path / "task.yaml"

    def read(content):
        file.write_bytes(content)
        resolve(str(file), [], registry)

    fuzz(damaged([path.read_bytes() for path in TASKS], YAML_TOKENS), read)


def test_tasks_of_familiar_words(fuzz, registry, whole, tmp_path):
    file, known = tmp_path / "task.yaml", words(whole)

    def read(tree):
        file.write_bytes(as_json(tree))
        resolve(str(file), [], registry)

    fuzz(documents(known) | st.dictionaries(st.sampled_from(sorted(whole)), documents(known)), read)


def test_tasks_with_other_values_are_validated(fuzz, registry, whole, tmp_path):
    """To the end: components are imported and tried on the meta device."""
    file = tmp_path / "task.yaml"
    names = [entry.name for entry in registry.entries()]

    def read(tree):
        file.write_bytes(as_json(tree))
        validate(resolve(str(file), [], registry))

    fuzz(altered(whole, [*words(whole), *names]), read)


NUMBERS = st.sampled_from([2**16, 10**7, 2**31, 2**63, 10**30, -1, 0])


def test_sizes_beyond_all_measure(fuzz, registry, whole):
    """Every whole number of a task, and every option of a component, is bounded before anything is built."""
    sizes = [*_numbers(whole), "model.encoder.layers", "decoding.length"]
    options = [
        f"{BLOCKS[entry.kind]}={{name: {entry.name}, {name}: NUMBER}}"
        for entry in registry.entries()
        if entry.kind in BLOCKS
        for name, parameter in inspect.signature(registry.load(entry.kind, entry.name)).parameters.items()
        if "int" in str(parameter.annotation)
    ]
    settings = st.sampled_from([*(f"{path}=NUMBER" for path in sizes), *options])
    cases = st.tuples(settings, NUMBERS).map(lambda case: case[0].replace("NUMBER", str(case[1])))
    fuzz(cases, lambda setting: validate(resolve("dates", [setting], registry)))


BLOCKS = {
    Kind.POSITION: "model.position",
    Kind.ATTENTION: "model.attention",
    Kind.FEED_FORWARD: "model.feed_forward",
    Kind.HEAD: "model.head",
    Kind.RESIDUAL: "model.residual",
    Kind.INITIALIZATION: "model.initialization",
    Kind.TOKENIZER: "tokenizer",
    Kind.SCHEDULE: "training.schedule",
    Kind.DECODING: "decoding",
}


def _numbers(tree: dict, path: str = "") -> list[str]:
    """Returns the dotted paths of all whole numbers."""
    found = []
    for key, value in tree.items():
        if isinstance(value, dict):
            found += _numbers(value, f"{path}{key}.")
        elif type(value) is int:
            found.append(f"{path}{key}")
    return found


def test_settings(fuzz):
    keys = st.sampled_from(["model.width", "training", "data.files.train", ".", "a..b", "", "model.1"])
    values = st.binary(max_size=30).map(lambda raw: raw.decode("utf-8", "surrogateescape"))
    tokens = st.lists(st.sampled_from(YAML_TOKENS).map(bytes.decode) | values, max_size=4).map("".join)
    pairs = st.tuples(keys, st.just("="), tokens).map("".join) | tokens
    fuzz(st.lists(pairs, max_size=3), read_overrides)


def test_damaged_manifests(fuzz, tmp_path):
    file = tmp_path / "registry.yaml"

    def read(content):
        file.write_bytes(content)
        Registry.discover(file).entries()

    fuzz(damaged([path.read_bytes() for path in MANIFESTS], YAML_TOKENS), read)


def test_manifests_of_familiar_words(fuzz):
    tree = yaml.safe_load((ROOT / "registry.yaml").read_bytes())
    small = {key: value for key, value in tree.items() if key != "components"}
    small["components"] = {kind: dict(list(each.items())[:2]) for kind, each in tree["components"].items()}
    fuzz(
        altered(small, words(small)).map(as_json) | documents(words(small)).map(as_json),
        lambda content: parse(content, "registry.yaml"),
    )
