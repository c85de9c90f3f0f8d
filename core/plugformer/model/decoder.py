"""The decoder: a stack of layers that continues a target sequence, in one piece or token by token."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from typing import Any, cast

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

from plugformer.interfaces import BIDIRECTIONAL, Context, PositionalEncoding, Positions, View
from plugformer.interfaces.batch import Tokens
from plugformer.interfaces.context import Slots, State
from plugformer.model.encoder import LayerStack, Memory
from plugformer.model.layer import Layer, LayerStates, layer_states

BUCKET = 32
"""The least number of slots of a cache; it doubles when they are full."""


@dataclass(eq=False)
class Cache:
    """The key-value cache of a decoder: what its layers keep of a batch that is being decoded.

    The token at position p of a row is in slot p. Rows may differ in length: slots after the last token of a
    row are masked, and the next token overwrites them.

    Attributes:
        layers: The states of each layer's sublayers.
        memory: The encoder's output; None if the decoder reads no encoder.
        lengths: Number of tokens of each row; None before the first.
        even: Whether all rows have the same length, known without reading a device.
        end: Number of slots in use.
        fixed: Whether steps have fixed shapes and addresses, as a captured graph needs: they read all slots.
        numbers: For views that read marks, each token's position, whether it is real, and its marks.
    """

    layers: list[LayerStates]
    memory: Memory | None = None
    lengths: Int[Tensor, " rows"] | None = field(default=None, init=False)
    even: bool = field(default=True, init=False)
    end: int = field(default=0, init=False)
    fixed: bool = field(default=False, init=False)
    numbers: State = field(default_factory=State, init=False)
    _marks: tuple[str, ...] = field(default=(), init=False)

    def extend(
        self, tokens: Tokens, view: View, encoding: PositionalEncoding
    ) -> tuple[Positions, Positions, Slots]:
        """Adds new target tokens; returns their positions, those of all tokens so far, and their slots."""
        first, exporting, new = self.lengths is None, torch.compiler.is_exporting(), tokens.ids.shape[1]
        lengths = torch.zeros_like(tokens.ids[:, 0]) if self.lengths is None else self.lengths
        columns, even = torch.arange(new, device=tokens.ids.device)[None], self.even and not exporting
        places = columns + self.end if even else lengths[:, None] + columns
        past = self._keys(encoding) if self._marks and not first else None
        start = self.end if even else 0 if first else None
        grown = tokens.mask.sum(dim=1)
        self.lengths = lengths.add_(grown) if self.fixed else lengths + grown
        self.even = even and tokens.full
        self.end += new
        mask, end = None if tokens.full else tokens.mask, None if exporting or self.fixed else self.end
        # A row that does not grow stays at its last token, which may be the last that there can be.
        index = places if even or exporting else places.minimum((self.lengths[:, None] - 1).clamp(min=0))
        query = Positions(index, mask, encoding, end, start if even else None, tokens.marks)
        query = view.positions(query, tokens.ids, past)
        capacity = 0 if exporting else _capacity(self.end)
        slots = Slots(start, places if start is None else None, self._shown, capacity)
        if first:
            self._marks = tuple(query.marks)
        if self._marks or exporting:
            numbers = (query.index, tokens.mask.long(), *(query.mark(name) for name in self._marks))
            kept = torch.stack([each.expand_as(tokens.ids) for each in numbers], dim=-1)
            self.numbers.write((kept,), slots)
        return query, query if first else self._keys(encoding), slots

    def fix(self) -> None:
        """Gives the steps that follow fixed shapes and addresses, until slots are full or rows dropped."""
        self.fixed, self.even = True, False
        for state in self._states:
            state.fixed, state.kept = True, tuple(each.clone() for each in state.kept)

    def undo(self) -> Callable[[], None]:
        """Returns what undoes the next step, except for what it writes into slots: these are free again."""
        lengths, end = cast("Tensor", self.lengths).clone(), self.end
        kept = [(state, tuple(each.clone() for each in state.kept)) for state in self._states]

        def back() -> None:
            self.lengths, self.end = lengths, end
            for state, before in kept:
                state.kept = before

        return back

    @property
    def places(self) -> tuple[tuple[int, ...], ...]:
        """Addresses and shapes of all that the next step reads; while equal, so are its operators."""
        tensors = [tensor for state in self._states for tensor in state.tensors]
        mask = None if self.memory is None else self.memory.positions.mask
        tensors += [each for each in (self.lengths, mask) if each is not None]
        return (_capacity(self.end + 1),), *((each.data_ptr(), *each.shape) for each in tensors)

    @property
    def _states(self) -> list[State]:
        return [*(state for states in self.layers for state in states.values()), self.numbers]

    @property
    def _shown(self) -> int:
        return _capacity(self.end) if self.fixed else self.end

    def _keys(self, encoding: PositionalEncoding) -> Positions:
        """Returns the positions of all tokens so far."""
        if self.numbers.tokens:
            (kept,) = self.numbers.tokens
            index, real, *marks = kept[:, : self._shown].unbind(dim=-1)
            return Positions(index, real > 0, encoding, marks=dict(zip(self._marks, marks, strict=True)))
        lengths = cast("Tensor", self.lengths)
        keys = Positions.of(self._shown, encoding, device=lengths.device)
        return keys if self.even else replace(keys, mask=keys.index < lengths[:, None])

    def select(self, rows: Int[Tensor, " rows"], examples: Int[Tensor, " examples"] | None = None) -> None:
        """Keeps these rows of outputs, and these sources; None keeps all. See `Generative.begin`."""
        # Slots of no token must be finite: they are masked, but zero times NaN is NaN. Even rows have none.
        used = self.end if self.even else _capacity(self.end)
        for states in self.layers:
            for name, state in states.items():
                if name != "cross_attention":
                    state.select(rows, used)
                elif examples is not None:
                    state.select(examples, used)
        self.numbers.select(rows, used)
        if self.lengths is not None:
            lengths = self.lengths.index_select(0, rows)
            fits = len(lengths) == len(self.lengths)
            self.lengths = self.lengths.copy_(lengths) if fits else lengths
        if examples is not None and self.memory is not None:
            self.memory = self.memory.select(examples)

    @property
    def tensors(self) -> list[Shaped[Tensor, "rows ..."]]:
        """All that it keeps."""
        kept = [tensor for state in self._states for tensor in state.tensors]
        if self.memory is not None:
            at = self.memory.positions
            kept += [at.index.expand_as(cast("Tensor", at.mask)), cast("Tensor", at.mask)]
        return [*kept, cast("Tensor", self.lengths)]

    def rebuilt(self, tensors: Sequence[Shaped[Tensor, "rows ..."]]) -> "Cache":
        """Returns a cache of the same kind with other `tensors`."""
        rest, made = iter(tensors), dict[int, State]()

        def again(state: State) -> State:
            some = list(islice(rest, len(state.tensors)))
            made[id(state)] = state.rebuilt(some, made.get(id(state.owner)))
            return made[id(state)]

        layers = [{name: again(state) for name, state in states.items()} for states in self.layers]
        new = Cache(layers)
        new.numbers, new._marks, new.even = again(self.numbers), self._marks, False
        new.end = new.numbers.tokens[0].shape[1]
        if self.memory is not None:
            encoding = self.memory.positions.encoding
            new.memory = Memory(None, Positions(next(rest), next(rest), encoding))
        new.lengths = next(rest)
        return new


def _capacity(tokens: int) -> int:
    return max(BUCKET, 1 << (tokens - 1).bit_length())


class Decoder(LayerStack):
    """A stack that continues a sequence; both sides of cross-attention have `cross_position`.

    Training computes whole sequences; decoding calls `start`, then the decoder with some tokens or one at a
    time.
    """

    def __init__(self, *, cross_position: PositionalEncoding, **shared: Any) -> None:
        super().__init__(**shared)
        self.cross_position = cross_position

    def start(self, memory: Memory | None = None) -> Cache:
        """Returns an empty cache of a batch; `memory` is the input of cross-attention, if there is any."""
        return Cache(layer_states(cast("list[Layer]", [*self.layers])), memory)

    def forward(
        self, tokens: Tokens, memory: Memory | None = None, cache: Cache | None = None
    ) -> Float[Tensor, "batch length width"]:
        """Returns the hidden states of whole sequences, or of next tokens, which the cache then holds.

        Args:
            tokens: The tokens.
            memory: The input of cross-attention, if there is any and no cache, which has it.
            cache: Of the tokens before; None if there is none.
        """
        if cache is None:
            query, slots, states = self.whole(tokens), None, None
            key = query
        else:
            query, key, slots = cache.extend(tokens, self.view, self.position)
            memory, states = cache.memory, cache.layers
        context, cross = Context(query, key, view=self.view, slots=slots), None
        if memory is not None:
            source = replace(memory.positions, encoding=self.cross_position)
            reading = replace(query, encoding=self.cross_position)
            if memory.hidden is not None:
                reading = reading.beside(tokens.ids.shape[0], memory.hidden.shape[0])
            cross = Context(
                reading, source, view=BIDIRECTIONAL, cross=True, memory=memory.hidden, slots=slots
            )
        return self.compute(tokens, context, cross, states)
