"""Plugformer: transformers for text whose every part is a plugin.

What the command line does, in Python::

    trained = plugformer.train("dates", overrides=["model.attention=gqa"])
    predictions = trained.predict(["March 5, 1996"])

The names below are imported when they are first used, so that `import plugformer` needs no torch.
"""

from typing import TYPE_CHECKING

from plugformer.lazy import lazily

if TYPE_CHECKING:
    from plugformer.creation import create_model, model_spec
    from plugformer.registry.catalog import components, create
    from plugformer.runs.loading import load
    from plugformer.training.train import resume, train
else:
    __getattr__ = lazily(
        {
            "plugformer.creation": ("create_model", "model_spec"),
            "plugformer.registry.catalog": ("components", "create"),
            "plugformer.runs.loading": ("load",),
            "plugformer.training.train": ("resume", "train"),
        }
    )

__version__ = "0.1.0"

__all__ = ["__version__", "components", "create", "create_model", "load", "model_spec", "resume", "train"]


def __dir__() -> list[str]:
    """Returns all public names, imported yet or not."""
    return sorted({*globals(), *__all__})
