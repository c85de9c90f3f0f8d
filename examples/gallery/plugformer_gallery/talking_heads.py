"""Talking-heads attention: heads exchange their scores before the softmax and their weights after it."""

from jaxtyping import Float
from torch import Tensor, nn

from plugformer.interfaces import Attention, Context, ModelContext
from plugformer_blocks import attention_scores, attention_weights, project_heads
from plugformer_gallery.heads import merged, require_divisible


class TalkingHeadsAttention(Attention):
    """Multi-head attention with a linear map over the heads on either side of the softmax.

    Talking-Heads Attention, Shazeer et al. 2020, section 3: https://arxiv.org/abs/2003.02436, with as many
    softmax maps as heads. No fused kernel computes it: `attention_scores` and `attention_weights` are the two
    halves of `softmax_attention`, and positions, masks and dropout are in them.

    Args:
        model: Sizes of the model.

    Raises:
        ConfigurationError: The heads do not divide the width.
    """

    def __init__(self, model: ModelContext) -> None:
        super().__init__()
        require_divisible(model)
        self.width, self.dropout = model.width // model.heads, model.attention_dropout
        self.query, self.key, self.value, self.output = (
            nn.Linear(model.width, model.width) for _ in range(4)
        )
        self.before = nn.Linear(model.heads, model.heads, bias=False)
        self.after = nn.Linear(model.heads, model.heads, bias=False)

    def forward(
        self, x: Float[Tensor, "batch length width"], context: Context
    ) -> Float[Tensor, "batch length width"]:
        """Returns what each token reads with the weights that all heads have agreed on."""
        query, key, value = project_heads(x, context, self.query, self.key, self.value, width=self.width)
        scores = _mixed(attention_scores(query, key, context), self.before)
        weights = attention_weights(scores, context, dropout=self.dropout if self.training else 0.0)
        output: Tensor = self.output(merged(_mixed(weights, self.after) @ value))
        return output


def _mixed(
    maps: Float[Tensor, "batch heads query key"], mixing: nn.Linear
) -> Float[Tensor, "batch heads query key"]:
    """Applies a linear map over the heads to every pair of query and key."""
    mixed: Tensor = mixing(maps.movedim(1, -1)).movedim(-1, 1)
    return mixed
