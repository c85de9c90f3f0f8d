"""Feed-forward networks of x-transformers."""

from jaxtyping import Float
from torch import Tensor, nn
from x_transformers import x_transformers as library

from plugformer.interfaces import Context, FeedForward, ModelContext
from plugformer_x_transformers.settings import Settings, adapted

Stream = Float[Tensor, "batch length width"]


class XFeedForward(FeedForward):
    """A feed-forward network of x-transformers: https://github.com/lucidrains/x-transformers.

    Args:
        model: Sizes of the model.
        settings: Arguments of x-transformers' FeedForward, such as `{glu: true, swish: true}`.
    """

    def __init__(self, model: ModelContext, *, settings: Settings | None = None) -> None:
        super().__init__()
        ratio = (model.ffn_width + 0.5) / model.width  # it multiplies again, and rounds down
        self.network = adapted(library.FeedForward, model.width, settings=settings or {}, mult=ratio)
        linear = [path for path, module in self.named_modules() if isinstance(module, nn.Linear)]
        self.residual_path = "0", linear[-1].rpartition(".")[2]  # places in its nn.Sequential

    def forward(self, x: Stream, context: Context) -> Stream:
        """Returns the network's output at each token."""
        output: Tensor = self.network(x)
        return output
