"""The hooks of a run, and what their implementations receive."""

import ast

from generators.markdown import definition, methods, prose, signature
from plugformer.hooks import (
    EvaluationResult,
    Hooks,
    Run,
    SampleOutput,
    TrainingHooks,
    Update,
)


def hook_reference() -> str:
    """Returns a section for each hook, in the order of a run's life, then one for each argument's type."""
    given = [
        f"### {cls.__name__}\n\n{prose(cls.__doc__)}" for cls in (Run, Update, EvaluationResult, SampleOutput)
    ]
    looking, taking_part = _sections(Hooks), _sections(TrainingHooks)
    training = ["## Hooks of a training", prose(TrainingHooks.__doc__), *taking_part]
    return "\n\n".join(["## Hooks", *looking, *training, "## What hooks receive and return", *given])


def _sections(specification: type) -> list[str]:
    return [
        f"### {hook.name}\n\n{prose(ast.get_docstring(hook))}\n\n{signature(hook)}"
        for hook in methods(definition(specification))
    ]
