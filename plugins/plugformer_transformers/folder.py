"""The folder of a model: configuration, special tokens and weights of Transformers; never a pickle."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor

from plugformer.errors import ConfigurationError, nearest
from plugformer_blocks import read_pipeline
from plugformer_transformers.families import FAMILIES
from plugformer_transformers.family import Family
from plugformer_transformers.weights import Vocabulary

TOKENS = ("pad", "unk", "bos", "eos", "cls", "sep", "mask")
"""Special tokens that Transformers knows by name."""


@dataclass(frozen=True)
class Folder:
    """A folder with `config.json`, `tokenizer.json` and `*.safetensors`, as `save_pretrained` writes it."""

    path: Path

    @classmethod
    def open(cls, source: str, *, weights: bool = True) -> "Folder":
        """Returns a folder, or that of a model on the Hugging Face Hub, which is downloaded.

        Args:
            source: A folder, or the name of a model.
            weights: Whether the weights are needed, too.

        Raises:
            ConfigurationError: There is none.
        """
        folder = Path(source)
        if folder.is_dir():
            return cls(folder)
        if folder.is_absolute() or source.startswith(".") or source.count("/") > 1:
            raise ConfigurationError(f"there is no folder {source!r}; expected one with a config.json")
        import huggingface_hub  # slow, and only needed here

        patterns = ["*.json", "*.safetensors"][: 1 + weights]
        try:
            return cls(Path(huggingface_hub.snapshot_download(source, allow_patterns=patterns)))
        except (OSError, ValueError) as error:  # huggingface_hub's errors are of these
            raise ConfigurationError(
                f"there is no folder {source!r}, and no model of that name can be downloaded: {error}"
            ) from error

    @cached_property
    def config(self) -> dict[str, Any]:
        """The configuration, with numbers of special tokens that only `generation_config.json` has."""
        if not (self.path / "config.json").is_file():
            raise ConfigurationError(
                f"{self.path} has no config.json; expected a folder that `save_pretrained` wrote"
            )
        other, own = self._json("generation_config.json"), self._json("config.json")
        return other | {key: value for key, value in own.items() if key not in other or value is not None}

    @cached_property
    def family(self) -> Family:
        """The family of the model; ConfigurationError if it is none of ours, or cannot be computed here."""
        kind = str(self.config.get("model_type"))
        if kind not in FAMILIES:
            known = ", ".join(FAMILIES)
            raise ConfigurationError(
                f"{self.path / 'config.json'}: model_type {kind!r} has no counterpart here"
                f"{nearest(kind, FAMILIES)}; known: {known}"
            )
        FAMILIES[kind].check(self.config)
        return FAMILIES[kind]

    @property
    def size(self) -> int:
        """Rows of the embedding."""
        return int(self.config["vocab_size"])

    @cached_property
    def named(self) -> dict[str, int]:
        """The numbers of special tokens by name; also `decoder_start`."""
        names = self._json("special_tokens_map.json") | self._json("tokenizer_config.json")
        pipeline = read_pipeline(self._tokenizer())
        found: dict[str, int] = {}
        for name in TOKENS:
            token = names.get(f"{name}_token")
            spelled = token.get("content") if isinstance(token, dict) else token
            number = None if spelled is None else pipeline.token_to_id(spelled)
            number = self.config.get(f"{name}_token_id") if number is None else number
            number = number[0] if isinstance(number, list) else number
            if number is not None:
                found[name] = int(number)
        start = self.config.get("decoder_start_token_id")
        return found if start is None else {**found, "decoder_start": int(start)}

    @property
    def tokenizer(self) -> dict[str, Any]:
        """The settings of its tokenizer.

        Raises:
            ConfigurationError: There is no tokenizer.json, or it lacks a special token.
        """
        special, named = [], self.named
        for names in self.family.special:
            number = next((named[name] for name in names if name in named), None)
            if number is None:
                raise ConfigurationError(
                    f"{self.path / 'tokenizer_config.json'} names no {' or '.join(names)} token, which "
                    f"{self.family.model_type} needs"
                )
            special.append(number)
        front = named.get(self.family.prefix) if self.family.prefix else None
        return {
            "name": "transformers",
            "path": str(self._tokenizer()),
            "special": special,
            "size": self.size,
            **({} if front is None else {"front": front}),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Returns the weights in float32 by name.

        Raises:
            ConfigurationError: There are none in safetensors, or they are damaged.
        """
        files = sorted(self.path.glob("*.safetensors"))
        if not files:
            pickled = next(self.path.glob("*.bin"), None)
            found = f"has {pickled.name}, a pickle, which could run any code" if pickled else "has no weights"
            raise ConfigurationError(
                f"{self.path} {found}; expected safetensors. If you trust its author, convert it: "
                "`AutoModel.from_pretrained(DIR).save_pretrained(DIR)` with transformers"
            )
        tensors: dict[str, Tensor] = {}
        try:
            for file in files:
                tensors |= load_file(file)
        except (OSError, SafetensorError) as error:
            raise ConfigurationError(f"{file} is damaged: {error}") from error
        return {_renamed(name): tensor.to(torch.float32) for name, tensor in tensors.items()}

    def parameters(self, special: Sequence[int], rows: int, names: Iterable[str]) -> dict[str, Tensor]:
        """Returns those of some parameters here, by name, that its weights are.

        Args:
            special: Numbers there of PADDING, UNKNOWN, BEGIN and END.
            rows: Longest sequence here.
            names: Names of parameters here.
        """
        tensors, parameters = self.tensors(), {}
        tokens = Vocabulary.of(special, self.size)
        for weight in self.family.weights(self.config, tokens, rows, names):
            for name in (weight.theirs, weight.theirs.removeprefix(self.family.base)):
                if name in tensors:
                    parameters.update(weight.inward(tensors[name]))
                    break
        return parameters

    def _tokenizer(self) -> Path:
        file = self.path / "tokenizer.json"
        if not file.is_file():
            raise ConfigurationError(
                f"{self.path} has no tokenizer.json, and rows of its embedding belong to tokens; write it: "
                "`AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)` with transformers"
            )
        return file

    def _json(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads((self.path / name).read_text(encoding="utf-8"))
        except FileNotFoundError:
            return {}
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"{self.path / name} is damaged: {error}") from error
        return found if isinstance(found, dict) else {}


def _renamed(name: str) -> str:
    """Returns today's name of a weight: those of norms had others."""
    return name.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")
