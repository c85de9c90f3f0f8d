"""Export to Hugging Face Transformers: a folder that `from_pretrained` reads.

https://huggingface.co/docs/transformers
"""

from pathlib import Path
from typing import Any

from plugformer.interfaces import BEGIN, PADDING, Level
from plugformer.registry import Kind
from plugformer.runs import TrainedModel, own_tensors
from plugformer_export.target import Engine, Target
from plugformer_export.transformers_engine import TransformersEngine, quiet
from plugformer_export.transformers_family import Fit, nearest_fit
from plugformer_export.transformers_tokenizer import Vocabularies
from plugformer_export.transformers_usage import program


class Transformers(Target):
    """The files that `save_pretrained` writes, of a class of Transformers that computes the same."""

    name = "transformers"
    extra = "pretrained"
    libraries = ("transformers",)

    def problems(self, trained: TrainedModel) -> list[str]:
        """Returns what keeps the model from the nearest family, and the tokenizer from a file."""
        fit = nearest_fit(trained)
        found = list(fit.problems)
        if trained.model.level is Level.NEXT_TOKEN:
            decoding = trained.task.decoding
            searches = [
                trained.registry.load(Kind.DECODING, f"plugformer:{name}") for name in ("greedy", "beam")
            ]
            if trained.registry.load(Kind.DECODING, decoding.name) not in searches:
                found.append(f"decoding: {decoding.name!r}")
            for key in ("pattern", "length"):
                if getattr(decoding, key) is not None:
                    without = f"; leave it out with --set decoding.{key}=null"
                    found.append(f"decoding.{key}: {getattr(decoding, key)!r} (a constraint{without})")
        source, target = trained.processor.tokenizers
        if source is not target:
            return [*found, "tokenizer: one for the source and one for the target"]
        return found or vocabularies_of(trained, fit).problems()

    def write(self, trained: TrainedModel, folder: Path) -> None:
        """Writes configuration, weights, tokenizer and the settings of the search."""
        import transformers

        fit = nearest_fit(trained)
        vocabularies = vocabularies_of(trained, fit)
        kind: Any = getattr(transformers, fit.class_name)
        generates = trained.model.level is Level.NEXT_TOKEN
        with quiet():
            config = kind.config_class(**configuration(trained, fit, vocabularies))
            model = kind(config)
            model.load_state_dict(weights(trained, fit, vocabularies), strict=False)
            model.tie_weights()
            if generates:
                model.generation_config = generation(trained, vocabularies)
            model.save_pretrained(folder)
            vocabularies.pretrained().save_pretrained(folder)

    def load(self, trained: TrainedModel, folder: Path) -> Engine:
        """Returns the model that Transformers loads, after a look at its tokenizer.

        Raises:
            ExportError: The tokenizer cuts texts otherwise.
        """
        fit = nearest_fit(trained)
        return TransformersEngine(trained, folder, fit.class_name, vocabularies_of(trained, fit))

    def usage(self, trained: TrainedModel) -> str:
        """Returns a program that needs `transformers` alone."""
        return program(trained, nearest_fit(trained).class_name)


def vocabularies_of(trained: TrainedModel, fit: Fit) -> Vocabularies:
    """Returns the numbers of tokens here and there."""
    return Vocabularies(trained, fit.family, fit.config)


def configuration(trained: TrainedModel, fit: Fit, vocabularies: Vocabularies) -> dict[str, Any]:
    """Returns what `config.json` says."""
    special = vocabularies.special
    config: dict[str, Any] = {
        **fit.config,
        "vocab_size": vocabularies.step.size,
        "pad_token_id": special[0],
        "bos_token_id": vocabularies.front if len(trained.model.stacks) > 1 else special[2],
        "eos_token_id": special[3],
    }
    if len(trained.model.stacks) > 1:
        config |= {"decoder_start_token_id": special[2], "forced_eos_token_id": None}
    labels = trained.processor.learned
    if trained.model.level is not Level.NEXT_TOKEN and isinstance(labels, list) and labels:
        config["id2label"] = dict(enumerate(map(str, labels)))
        config["label2id"] = {str(label): number for number, label in enumerate(labels)}
    return config


def weights(trained: TrainedModel, fit: Fit, vocabularies: Vocabularies) -> dict[str, Any]:
    """Returns the weights as Transformers names them."""
    own = own_tensors(trained.model)
    rows = trained.task.model.max_length
    return {
        weight.theirs: weight.outward([own[name] for name in weight.ours])
        for weight in fit.family.weights(fit.config, vocabularies.step, rows)
        if own.keys() >= {*weight.ours}
    }


def generation(trained: TrainedModel, vocabularies: Vocabularies) -> Any:
    """Returns the settings of `generate` that search as the task's decoding does."""
    import transformers

    decoding: Any = trained.experiment.create(Kind.DECODING, trained.task.decoding)
    special = vocabularies.special
    never = sorted({special[PADDING], special[BEGIN]} - {special[3]})
    longest = trained.task.decoding.max_length
    return transformers.GenerationConfig(
        pad_token_id=special[0],
        bos_token_id=vocabularies.front if len(trained.model.stacks) > 1 else special[2],
        eos_token_id=special[3],
        decoder_start_token_id=special[2] if len(trained.model.stacks) > 1 else None,
        do_sample=False,
        suppress_tokens=never or None,
        max_new_tokens=longest if isinstance(longest, int) else None,
        **(
            {"num_beams": decoding.size, "length_penalty": decoding.length_penalty, "early_stopping": True}
            if getattr(decoding, "size", 1) > 1
            else {}
        ),
    )
