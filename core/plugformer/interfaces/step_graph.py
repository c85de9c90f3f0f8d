"""A step of decoding as one launch: a graph of it, captured while shapes and addresses stay."""

import logging
from collections.abc import Callable
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces.batch import Tokens
from plugformer.interfaces.model import Generative

logger = logging.getLogger(__name__)

Capture = Callable[[Callable[[], Tensor]], tuple[Callable[[], None], Tensor]]
"""Records what a function does, without effect; returns what does it, and the tensor of its result."""


def captured(run: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
    """Captures a CUDA graph: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs.

    Unlike `torch.cuda.graph` it neither waits for the device nor empties the allocator's cache, and other
    threads may use the device meanwhile.
    """
    graph, stream, current = torch.cuda.CUDAGraph(), torch.cuda.Stream(), torch.cuda.current_stream()
    stream.wait_stream(current)
    with torch.cuda.stream(stream):
        graph.capture_begin(capture_error_mode="thread_local")
        try:
            result = run()
        finally:
            graph.capture_end()
    current.wait_stream(stream)
    return graph.replay, result


class StepGraph:
    """Steps of one token for every row, replayed as long as a cache stays where it is.

    A step after a change is computed as usual, which warms up; the next one is captured. What cannot be
    captured, because a component waits for the device, is computed as usual from then on.

    Args:
        model: The model.
        past: Its cache; one without `fix` and `places` is not captured.
        capture: Makes a graph.
    """

    def __init__(self, model: Generative, past: Any, capture: Capture = captured) -> None:
        self.model, self.past, self.capture = model, past, capture
        mixed = torch.is_autocast_enabled("cuda")  # whose cache of weights a graph would fill
        fixable = all(hasattr(past, name) for name in ("fix", "places"))
        self.possible = fixable and not mixed and not _watched(model)
        self._places: Any = None
        self._replay: Callable[[], None] | None = None
        if self.possible:
            past.fix()

    def step(self, tokens: Tokens) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a new token of every row, which the next step may overwrite."""
        if not self.possible:
            return self._computed(tokens)
        if self.past.places != self._places:
            self._replay = None
            hidden = self._computed(tokens)
            self._places = self.past.places
            return hidden
        if self._replay is None and not self._captures(tokens):
            return self._computed(tokens)
        self._ids.copy_(tokens.ids)
        self._mask.copy_(tokens.mask)
        assert self._replay is not None  # noqa: S101 (captured)
        self._replay()
        self.past.end += 1
        return self._hidden

    def _captures(self, tokens: Tokens) -> bool:
        """Captures a step; returns whether that was possible."""
        self._ids, self._mask, end = tokens.ids.clone(), tokens.mask.clone(), self.past.end
        fixed = Tokens(self._ids, self._mask, full=True)
        try:
            self._replay, self._hidden = self.capture(lambda: self._computed(fixed))
        except RuntimeError as error:
            logger.info("a step of decoding cannot be a CUDA graph: %s", str(error).splitlines()[0])
            self.possible = False
        self.past.end = end
        return self.possible

    def _computed(self, tokens: Tokens) -> Tensor:
        return self.model.step(tokens, self.past)[:, -1]


def _watched(model: Generative) -> bool:
    """Returns whether somebody wants more of a step than its result, which a replay does not give."""
    hooks = (part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    return "cross_attention" in model.head.reads or any(hooks)
