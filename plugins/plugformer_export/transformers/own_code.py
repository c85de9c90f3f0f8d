"""A model with code of its own, for parts that no class of Transformers has.

Its modeling file is made of a template, which has attention and layers, and of the sources of the run's
norm and feed-forward network.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from importlib import resources
from pathlib import Path
from typing import Any, ClassVar

from jinja2 import Environment, PackageLoader, StrictUndefined

import plugformer
from plugformer.configuration import ModelSettings
from plugformer.interfaces import BIDIRECTIONAL, CAUSAL, Level
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_export.engine import is_built_in, stack_problems, stated
from plugformer_export.transformers.fit import Fit
from plugformer_export.transformers.transcription import Transcription, Untranscribable
from plugformer_transformers.family import Config, Family, is_vocabulary
from plugformer_transformers.weights import Vocabulary, Weight

_JINJA = Environment(  # noqa: S701 (writes Python, not HTML)
    loader=PackageLoader("plugformer_export.transformers", ""),
    undefined=StrictUndefined,
    keep_trailing_newline=True,
)
_KINDS = {
    "language_model": "CausalLM",
    "classifier": "SequenceClassification",
    "token_classifier": "TokenClassification",
}
_RESIDUALS = {
    "pre": "each adds what it makes of the normalized stream",
    "post": "the sum of the stream and what each makes of it is normalized",
    "parallel": "both read the same normalized stream",
}
_POSITIONS = ("rope", "learned", "sinusoidal", "none")
_CLASSES = {
    "CausalLM": "CausalLMOutputWithPast",
    "SequenceClassification": "SequenceClassifierOutput",
    "TokenClassification": "TokenClassifierOutput",
}


class OwnCode(Family):
    """Weights with the names that they have here, but for the beginning."""

    model_type = "plugformer"
    architecture = ""  # a decoder alone or an encoder alone
    base = "model."
    classes: ClassVar = {name: f"PlugformerFor{kind}" for name, kind in _KINDS.items()}
    special = (("pad",), ("unk",), ("bos",), ("eos",))
    sizes: ClassVar = {}

    def parts(self, config: Config) -> dict[str, Any]:  # noqa: ARG002
        """Returns nothing: such a model is not read."""
        return {}

    def options(self, model: ModelSettings) -> dict[str, Any]:  # noqa: ARG002
        """Returns nothing more than `config`."""
        return {}

    def weights(
        self,
        config: Config,
        tokens: Vocabulary,
        rows: int,  # noqa: ARG002
        parameters: Iterable[str],
    ) -> Iterator[Weight]:
        """Yields all parameters; a tied head has none of its own."""
        for name in parameters:
            if not (name == "head.weight" and config["tie_word_embeddings"]):
                yield Weight(_theirs(name), (name,), (tokens,) if is_vocabulary(name) else ())


def _theirs(name: str) -> str:
    """Returns the name there of a parameter."""
    stack, _, rest = name.partition(".")
    if stack == "head":
        return (
            f"classifier.{rest.removeprefix('output.')}" if rest.startswith("output.") else f"lm_head.{rest}"
        )
    return f"model.{rest.replace('.residual.', '.').replace('position.table.', 'position.')}"


def fit(trained: TrainedModel) -> Fit:
    """Returns the fit of a model to code of its own, with what cannot be written down."""
    source = _Source(trained)
    found = list(dict.fromkeys(source.problems()))
    name = next((name for name in _KINDS if is_built_in(trained, "head", Kind.HEAD, name)), "")
    return Fit(OwnCode(), {} if found else source.config(), found, OwnCode.classes.get(name, ""))


def write_code(trained: TrainedModel, config: Mapping[str, Any], class_name: str, folder: Path) -> None:
    """Writes the modeling file, the configuration's file and `config.json`."""
    kind = class_name.removeprefix("PlugformerFor")
    source = _Source(trained)
    for file, values in (("modeling", source.values(kind)), ("configuration", {"config": config})):
        text = _JINJA.get_template(f"{file}.jinja").render(version=plugformer.__version__, **values)
        (folder / f"{file}_plugformer.py").write_text(text.rstrip("\n") + "\n", encoding="utf-8")
    classes = {"AutoModel": "PlugformerModel", f"AutoModelFor{kind}": class_name}
    auto = {"AutoConfig": "configuration_plugformer.PlugformerConfig"}
    auto |= {name: f"modeling_plugformer.{value}" for name, value in classes.items()}
    written = {
        "architectures": [class_name],
        "auto_map": auto,
        "model_type": "plugformer",
        "dtype": "float32",
        **config,
    }
    (folder / "config.json").write_text(json.dumps(written, indent=2, ensure_ascii=False), encoding="utf-8")


def _taken() -> list[str]:
    """Returns the names of the template's classes and functions."""
    text = resources.files(__package__).joinpath("modeling.jinja").read_text(encoding="utf-8")
    return re.findall(r"^(?:class|def) (\w+)", text, re.MULTILINE)


class _Source:
    """What the template needs of a model with one stack."""

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained
        self.model: Any = trained.model
        self.name: str
        self.stack: Any
        self.name, self.stack = next(iter(self.model.stacks.items()))
        self.parts: dict[str, list[tuple[str, Any]]] = {}
        for path, part in self.model.parts.items():
            slot = path.rpartition(".")[2]
            if ".norms." in path or slot == "final_norm":
                slot = "norm"
            self.parts.setdefault(slot, []).append((path, part))

    def problems(self) -> Iterator[str]:
        """Yields what has no counterpart."""
        trained = self.trained
        if len(self.model.stacks) > 1 or self.stack.view not in (CAUSAL, BIDIRECTIONAL):
            yield f"model.architecture: {trained.task.model.architecture.name!r}"
            return
        yield from (problem for problem in stack_problems(trained) if "cross" not in problem)
        known = {"position": (Kind.POSITION, _POSITIONS), "residual": (Kind.RESIDUAL, tuple(_RESIDUALS))}
        known |= {"attention": (Kind.ATTENTION, ("mha", "gqa", "mqa")), "head": (Kind.HEAD, tuple(_KINDS))}
        for slot, (kind, names) in known.items():
            for path, _ in self.parts[slot]:
                if not any(is_built_in(trained, path, kind, name) for name in names):
                    yield stated(trained, path)
        for slot in ("attention", "feed_forward", "norm", "residual"):
            (_, first), *others = self.parts[slot]
            if any(part != first for _, part in others):
                yield f"model.{slot}: layers that differ"
        sources = Transcription(_taken())
        for slot in ("feed_forward", "norm"):
            path, part = self.parts[slot][0]
            try:
                sources.execute(sources.add(part.make, part.options), trained.experiment.spec)
            except Untranscribable as error:
                yield f"{stated(trained, path)}: {error}; it"
        head = self.model.parts["head"]
        if head.options.get("hidden") is not None:
            yield f"{stated(trained, 'head')} with a hidden layer"
        if trained.model.level is Level.TOKEN and is_built_in(trained, "head", Kind.HEAD, "language_model"):
            yield f"{stated(trained, 'head')} at level token"

    def config(self) -> dict[str, Any]:
        """Returns the sizes."""
        spec, attention = self.trained.experiment.spec, self.stack.layers[0].attention
        return {
            "hidden_size": spec.width,
            "num_hidden_layers": len(self.stack.layers),
            "num_attention_heads": spec.heads,
            "num_key_value_heads": attention.kv_heads,
            "intermediate_size": spec.ffn_width,
            "max_position_embeddings": spec.max_length,
            "dropout": spec.dropout,
            "attention_dropout": spec.attention_dropout,
            "tie_word_embeddings": bool(spec.tied_embeddings),
        }

    def values(self, kind: str) -> dict[str, Any]:
        """Returns the values of the template: no text of a run, which would be executed."""
        trained, spec, sources = self.trained, self.trained.experiment.spec, Transcription()
        parts = (self.parts[slot][0][1] for slot in ("feed_forward", "norm"))
        feed_forward, norm = (sources.add(part.make, part.options) for part in parts)
        position = next(
            name for name in _POSITIONS if is_built_in(trained, f"{self.name}.position", Kind.POSITION, name)
        )
        path = self.parts["residual"][0][0]
        residual = next(name for name in _RESIDUALS if is_built_in(trained, path, Kind.RESIDUAL, name))
        causal, head = self.stack.view == CAUSAL, self.model.head
        return {
            "kind": kind,
            "causal": causal,
            "mask": "create_causal_mask" if causal else "create_bidirectional_mask",
            "outputs": ["BaseModelOutputWithPast" if causal else "BaseModelOutput", _CLASSES[kind]],
            "imports": "\n".join(sorted(sources.imports, key=lambda line: (line.startswith("from"), line))),
            "sources": [*sources.sources.values()],
            "position": position,
            "rope": position == "rope",
            "base": getattr(self.stack.position, "base", None),
            "bias": self.stack.layers[0].attention.query.bias is not None,
            "norm": norm,
            "final_norm": norm if any(path.endswith("final_norm") for path, _ in self.parts["norm"]) else "",
            "feed_forward": feed_forward,
            "residual": residual,
            "residual_words": _RESIDUALS[residual],
            "scaled": bool(spec.scaled_embeddings),
            "pooling": getattr(head, "pooling", ""),
            "head_bias": kind != "CausalLM" or head.bias is not None,
            "tied": {"lm_head.weight": "model.embedding.weight"} if spec.tied_embeddings else None,
        }
