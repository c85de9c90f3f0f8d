"""Linear attentions of flash-linear-attention, by their rules of updating a state."""

from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn.functional import logsigmoid, normalize, silu

from plugformer.errors import ConfigurationError, NotExportableError
from plugformer.interfaces import CAUSAL, Attention, Context, ModelContext, View
from plugformer_fla.references import reference

Stream = Float[Tensor, "batch length width"]


@dataclass(frozen=True)
class Rule:
    """How a state is updated.

    Attributes:
        function: Name of the reference.
        decay: What decays by a factor of the token: nothing, the state of a head, or each row of it.
        delta: Whether a value takes the place of what the state has at its key, by a learned share.
        heads_first: Whether the function takes heads before tokens.
        gate: Name of the decay's argument.
    """

    function: str
    decay: Literal["none", "head", "row"] = "none"
    delta: bool = False
    heads_first: bool = False
    gate: str = "g"


RULES = {
    "linear_attn": Rule("naive_recurrent_linear_attn"),
    "simple_gla": Rule("naive_recurrent_simple_gla", decay="head"),
    "gla": Rule("naive_recurrent_gla", decay="row", gate="gk"),
    "delta_rule": Rule("delta_rule_recurrence", delta=True, heads_first=True),
    "gated_delta_rule": Rule("naive_recurrent_gated_delta_rule", decay="head", delta=True),
    "kda": Rule("naive_recurrent_kda", decay="row", delta=True),
}

SLOWER = 16.0
"""What logarithms of decays are divided by: `gate_logit_normalizer` of fla.layers.GatedLinearAttention."""


class FLAttention(Attention):
    """A linear attention of flash-linear-attention: https://github.com/fla-org/flash-linear-attention.

    A state of each head, (head width, head width), is updated by keys and values and read by queries. It is
    computed token by token, by the reference of the package in float32, on any device; Triton is not needed,
    nor used. Heads are normalized before the last map. Rules with a share of values (delta) have queries and
    keys of length one.

    Args:
        model: Sizes of the model; the heads must divide the width.
        rule: Name of the operation in `fla.ops`.

    Raises:
        ConfigurationError: The heads do not divide the width, or the place is not causal.
    """

    def __init__(
        self,
        model: ModelContext,
        *,
        rule: Literal[
            "linear_attn", "simple_gla", "gla", "delta_rule", "gated_delta_rule", "kda"
        ] = "gated_delta_rule",
    ) -> None:
        super().__init__()
        if model.width % model.heads:
            raise ConfigurationError(f"{model.heads} heads do not divide the width {model.width}")
        if not model.place.causal:
            raise ConfigurationError(
                f"{rule} reads what came before in its own sequence: choose another one here"
            )
        self.rule, self.heads = RULES[rule], model.heads
        self.compute = reference(rule, self.rule.function)
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width, bias=False) for _ in range(4)
        )
        self.norm = nn.RMSNorm(model.width // model.heads, eps=1e-5)
        if self.rule.decay != "none":
            self.decay = nn.Linear(model.width, model.heads if self.rule.decay == "head" else model.width)
        if self.rule.delta:
            self.share = nn.Linear(model.width, model.heads)

    def follows(self, view: View) -> bool:
        """Returns whether a view is that of a causal mask: a state hides nothing of the past."""
        return view == CAUSAL

    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns what each token reads from the state; NotExportableError if it is traced, with its loop."""
        if torch.compiler.is_exporting():
            raise NotExportableError("fla-core's references go through a sequence in a loop")
        heads = [silu(each).unflatten(-1, (self.heads, -1)) for each in (self.query(x), self.key(x))]
        query, key = (normalize(each, dim=-1) for each in heads) if self.rule.delta else heads
        given = {"q": query, "k": key, "v": self.value(x).unflatten(-1, (self.heads, -1)), **self._gates(x)}
        if context.real is not None:  # padding neither decays the state nor adds to it
            real = context.real[..., None]
            for name in given.keys() - {"q", "v"}:
                given[name] = given[name] * (real if given[name].dim() == real.dim() else real[..., None])
        if self.rule.heads_first:
            given = {name: values.transpose(1, 2) for name, values in given.items()}
        state = None if context.past is None else context.past[0]
        read, state = self.compute(**given, initial_state=state, output_final_state=True)
        context.keep(state)
        read = (read.transpose(1, 2) if self.rule.heads_first else read).to(x.dtype)
        output: Tensor = self.output(self.norm(read).flatten(-2))
        return output

    def _gates(self, x: Stream) -> dict[str, Tensor]:
        """Returns the logarithms of decays, and the shares of values, that the rule has."""
        gates: dict[str, Tensor] = {}
        if self.rule.decay != "none":
            logarithm = logsigmoid(self.decay(x)) / SLOWER
            gates[self.rule.gate] = (
                logarithm.unflatten(-1, (self.heads, -1)) if self.rule.decay == "row" else logarithm
            )
        if self.rule.delta:
            gates["beta"] = self.share(x).sigmoid()
        return gates
