"""A step of decoding as one launch: a graph of it, captured while shapes and addresses stay."""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any
from weakref import WeakKeyDictionary

import torch
from jaxtyping import Float
from torch import Tensor

from plugformer.interfaces.batch import Tokens
from plugformer.interfaces.model import Generative

logger = logging.getLogger(__name__)

_capturing = Lock()
_capturable = WeakKeyDictionary[Generative, bool]()  # models whose steps were rehearsed


@cache
def _stream(device: int) -> torch.cuda.Stream:  # noqa: ARG001 (one of each: cuBLAS keeps memory for it)
    return torch.cuda.Stream()


class StepGraph:
    """Steps of one token for every row, replayed as long as a cache stays where it is.

    A step after a change is computed as usual, which warms up; the next one is captured. The first of a model
    is a rehearsal: if a component waits for the device, the model's steps are computed as usual from then on.

    Args:
        model: The model.
        past: Its cache; one without `fix`, `places` and `undo` is not captured.
    """

    def __init__(self, model: Generative, past: Any) -> None:
        self.model, self.past = model, past
        mixed = torch.is_autocast_enabled("cuda")  # whose cache of weights a graph would fill
        fixable = all(hasattr(past, name) for name in ("fix", "places", "undo"))
        self.possible = _capturable.get(model, True) and fixable and not mixed and not _watched(model)
        self._places: Any = None
        self._replay: Callable[[], None] | None = None
        if self.possible:
            past.fix()

    def step(self, tokens: Tokens) -> Float[Tensor, "rows width"]:
        """Returns the hidden state of a new token of every row, which the next step may overwrite."""
        if not self.possible:
            return self._computed(tokens)
        with torch.cuda.device_of(tokens.ids):  # streams are those of the current device
            if self.past.places != self._places:
                self._replay = None
                hidden = self._computed(tokens) if self.model in _capturable else self._rehearsed(tokens)
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

    @staticmethod
    def capture(run: Callable[[], Tensor]) -> tuple[Callable[[], None], Tensor]:
        """Records what a function does, without effect; returns what does it, and its result.

        As a CUDA graph: https://docs.pytorch.org/docs/stable/notes/cuda.html#cuda-graphs. Unlike
        `torch.cuda.graph` it neither waits for the device nor empties the allocator's cache, and other
        threads may use the device meanwhile.
        """
        graph, current = torch.cuda.CUDAGraph(), torch.cuda.current_stream()
        stream = _stream(torch.cuda.current_device())
        with _capturing:
            stream.wait_stream(current)
            with torch.cuda.stream(stream):
                graph.capture_begin(capture_error_mode="thread_local")
                try:
                    result = run()
                finally:
                    # Where an operator has waited, this raises before the allocator leaves the graph's pool,
                    # and nothing public makes it leave. So what waits is found before.
                    graph.capture_end()
            current.wait_stream(stream)
        return graph.replay, result

    @staticmethod
    @contextmanager
    def without_waits() -> Iterator[None]:
        """A context in which operators that wait for a CUDA device raise RuntimeError, in all threads."""
        mode = torch.cuda.get_sync_debug_mode()
        torch.cuda.set_sync_debug_mode("error")
        try:
            yield
        finally:
            torch.cuda.set_sync_debug_mode(mode)

    def _rehearsed(self, tokens: Tokens) -> Tensor:
        """Returns a computed step; finds out whether steps of the model can be captured."""
        undo = self.past.undo()
        try:
            with self.without_waits():
                hidden = self._computed(tokens)
        except RuntimeError as error:
            undo()
            hidden = self._computed(tokens)  # fails again if waiting was not the reason
            self._renounce(error)
        else:
            _capturable[self.model] = True
        return hidden

    def _captures(self, tokens: Tokens) -> bool:
        """Captures a step; returns whether that was possible."""
        self._ids, self._mask, end = tokens.ids.clone(), tokens.mask.clone(), self.past.end
        fixed = Tokens(self._ids, self._mask, full=True)
        try:
            self._replay, self._hidden = self.capture(lambda: self._computed(fixed))
        except RuntimeError as error:
            self._renounce(error)
        self.past.end = end
        return self.possible

    def _renounce(self, error: RuntimeError) -> None:
        """Remembers that steps of the model cannot be captured."""
        logger.info("a step of decoding cannot be a CUDA graph: %s", str(error).splitlines()[0])
        self.possible = _capturable[self.model] = False

    def _computed(self, tokens: Tokens) -> Tensor:
        return self.model.step(tokens, self.past)[:, -1]


def _watched(model: Generative) -> bool:
    """Returns whether somebody wants more of a step than its result, which a replay does not give."""
    hooks = (part._forward_hooks or part._forward_pre_hooks for part in model.modules())
    return "cross_attention" in model.head.reads or any(hooks)
