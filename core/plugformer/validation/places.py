"""Where each component of a model is chosen, and what it is told there."""

from collections.abc import Iterator

from jaxtyping import Float
from torch import Tensor

from plugformer.configuration.task import Task
from plugformer.interfaces import ModelContext, Norm, ResidualContext
from plugformer.kinds import Kind
from plugformer.model.assembly import context
from plugformer.model.plan import Choice, LayerPlan, StackPlan


def choices_of(task: Task, plan: StackPlan) -> Iterator[tuple[Kind, Choice, ModelContext]]:
    """Yields what is chosen for each place of a stack, and what it is told there."""

    def told(kind: Kind, choice: Choice) -> tuple[Kind, Choice, ModelContext]:
        return kind, choice, context(task.model, choice.place)

    yield told(Kind.POSITION, plan.position)
    yield told(Kind.NORM, plan.norm)
    if plan.cross_position is not None:
        yield told(Kind.POSITION, plan.cross_position)
    for layer in plan.layers:
        for name, choice in layer.sublayers.items():
            yield told(Kind.FEED_FORWARD if name == "feed_forward" else Kind.ATTENTION, choice)
        yield told(Kind.NORM, layer.norm)
        yield Kind.RESIDUAL, layer.residual, residual_context(task, layer)


class _Unchanged(Norm):
    """Stands for any norm."""

    def forward(self, x: Float[Tensor, "*tokens width"]) -> Float[Tensor, "*tokens width"]:
        return x


def residual_context(task: Task, layer: LayerPlan) -> ResidualContext:
    """Returns what a residual connection is told; its norms are tried by themselves."""
    model = context(task.model, layer.residual.place)
    return ResidualContext(**vars(model), sublayers=tuple(layer.sublayers), norm=_Unchanged)


def across(plan: StackPlan, name: str) -> list[Choice]:
    """Returns one of the two attentions of every layer, as far as layers have it."""
    return [layer.sublayers[name] for layer in plan.layers if name in layer.sublayers]
