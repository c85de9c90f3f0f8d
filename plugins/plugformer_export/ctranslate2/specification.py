"""A model as CTranslate2's specification: which parts have a counterpart there, and where their weights go.

The layout is that of https://github.com/OpenNMT/CTranslate2/blob/master/python/ctranslate2/specs. Modules are
read by their paths, which are part of the format of runs.
"""

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np
from numpy import ndarray
from torch import Tensor, nn

from plugformer.interfaces import SPECIAL_TOKENS, Level, Positions
from plugformer.registry import Kind
from plugformer.runs import TrainedModel
from plugformer_export.engine import is_built_in, stack_problems, stated

PARTS = {
    Kind.ATTENTION: ("mha", "gqa", "mqa"),
    Kind.POSITION: ("learned", "sinusoidal", "rope", "alibi", "t5", "none"),
    Kind.FEED_FORWARD: ("relu", "gelu", "swiglu", "geglu", "reglu"),
    Kind.NORM: ("layer_norm", "rms_norm"),
    Kind.RESIDUAL: ("pre", "post"),
}
"""The built-in parts that CTranslate2 computes, too."""

ACTIVATIONS = {"relu": "RELU", "gelu": "GELU", "swiglu": "SWISH", "geglu": "GELU", "reglu": "RELU"}


class Parts:
    """The parts of a model by the names that CTranslate2 knows them by.

    Args:
        trained: The model.
    """

    def __init__(self, trained: TrainedModel) -> None:
        self.trained = trained
        self.model = trained.model
        self._names = {
            trained.registry.load(kind, f"plugformer:{name}"): name for kind in PARTS for name in PARTS[kind]
        }

    def name(self, path: str) -> str:
        """Returns the name of the part at a path; empty if CTranslate2 does not have it."""
        make: Any = self.model.parts[path].make
        return self._names.get(make, "")

    def problems(self) -> list[str]:
        """Returns why the model does not fit, each part once."""
        found = [
            stated(self.trained, path) for path in self.model.parts if path != "head" and not self.name(path)
        ]
        if not found:  # parts are read only where they are known
            found += stack_problems(self.trained)
            for name, stack in self.model.stacks.items():
                found += self._stack_problems(name, stack)
            epsilons = {norm.eps for norm in self._norms()}
            if len(epsilons) > 1:
                found.append(f"model.norm: norms with different epsilons {sorted(map(float, epsilons))}")
        return [*dict.fromkeys(found), *self._structure_problems()]

    def _structure_problems(self) -> Iterable[str]:
        """Yields what is wrong with the level or the head."""
        level = self.model.level
        if level is Level.NEXT_TOKEN:
            if not is_built_in(self.trained, "head", Kind.HEAD, "language_model"):
                yield stated(self.trained, "head")
        elif set(self.model.stacks) != {"encoder"}:
            name = self.trained.task.model.architecture.name
            yield f"model.architecture: {name!r} without generation (level {level}; an encoder alone fits)"

    def _norms(self) -> Iterable[Any]:
        return (module for module in self.model.modules() if isinstance(module, nn.LayerNorm | nn.RMSNorm))

    @property
    def epsilon(self) -> float:
        """That of all norms."""
        return float(next(iter(self._norms())).eps)

    def _stack_problems(self, name: str, stack: Any) -> Iterable[str]:
        causal = name == "decoder"
        position = self.name(f"{name}.position")
        shown = stated(self.trained, f"{name}.position")
        if position == "alibi" and not causal:
            yield f"{shown} in an encoder"
        if position == "t5" and stack.position.bidirectional is causal:
            yield f"{shown} with bidirectional={stack.position.bidirectional} in the {name}"
        for slot in ("attention", "cross_attention", "feed_forward", "residual"):
            paths = [f"{name}.layers.{number}.{slot}" for number in range(len(stack.layers))]
            specs = [self.model.parts[path] for path in paths if path in self.model.parts]
            if any(spec != specs[0] for spec in specs):
                yield f"{stated(self.trained, paths[-1])}, another than in the layer below,"
        norms = {type(norm) for norm in stack.modules() if isinstance(norm, nn.LayerNorm | nn.RMSNorm)}
        if len(norms) > 1:
            yield f"model.norm: several norms in the {name}"
        parts = stack.layers[0].parts
        cross = parts.get("cross_attention")
        if cross is not None and cross.kv_heads != parts["attention"].kv_heads:
            path = f"{name}.layers.0.cross_attention"
            yield f"{stated(self.trained, path)}, another than in self-attention,"

    def shape(self, name: str) -> dict[str, Any]:
        """Returns the arguments of the constructors of CTranslate2's specifications of a stack."""
        import ctranslate2.specs as ct2

        stack: Any = self.model.stacks[name]
        network = self.name(f"{name}.layers.0.feed_forward")
        computed = stack.layers[0].feed_forward.activation
        tanh = getattr(computed, "approximate", "none") == "tanh"
        activation = "GELUTanh" if tanh else ACTIVATIONS[network]
        position, heads = self.name(f"{name}.position"), stack.layers[0].attention
        arguments = {
            "num_layers": len(stack.layers),
            "num_heads": heads.heads,
            "num_heads_kv": heads.kv_heads if heads.kv_heads != heads.heads else None,
            "activation": getattr(ct2.common_spec.Activation, activation),
            "ffn_glu": hasattr(stack.layers[0].feed_forward, "gate"),
            "rms_norm": self.name(f"{name}.layers.0.residual.norms.attention") == "rms_norm",
            "relative_attention_bias": position == "t5",
            # Also with post-norm: the argument decides whether there is a final norm.
            "pre_norm": True,
            "no_final_norm": isinstance(stack.final_norm, nn.Identity),
        }
        if position == "rope":
            arguments |= {"rotary_dim": 0, "rotary_interleave": True, "rotary_base": stack.position.base}
        if position == "alibi":
            arguments["alibi"] = True
        return arguments

    def fill(self, spec: Any, name: str) -> None:
        """Puts the weights of a stack into its specification."""
        stack: Any = self.model.stacks[name]
        spec.pre_norm = self.name(f"{name}.layers.0.residual") == "pre"
        embeddings = spec.embeddings[0] if isinstance(spec.embeddings, list) else spec.embeddings
        embeddings.weight = array(stack.embedding.weight)
        spec.scale_embeddings = stack.embedding.scale != 1
        if hasattr(spec, "position_encodings") and self.name(f"{name}.position") != "rope":
            spec.position_encodings.encodings = self._table(stack)
        if hasattr(spec, "layer_norm"):
            _fill_norm(spec.layer_norm, stack.final_norm)
        for target, layer in zip(spec.layer, stack.layers, strict=True):
            norms = layer.residual.norms
            _fill_attention(target.self_attention, layer.attention, norms["attention"], joined=3)
            if self.name(f"{name}.position") == "t5":
                target.self_attention.relative_attention_bias = array(stack.position.table)
                distance = np.int32(stack.position.max_distance)
                target.self_attention.relative_attention_max_distance = distance
            if "cross_attention" in layer.parts:
                _fill_attention(target.attention, layer.cross_attention, norms["cross_attention"], joined=2)
            network = layer.feed_forward
            _fill_norm(target.ffn.layer_norm, norms["feed_forward"])
            gated = hasattr(network, "gate")
            _fill_linear(target.ffn.linear_0, network.gate if gated else network.up)
            if gated:
                _fill_linear(target.ffn.linear_0_noact, network.up)
            _fill_linear(target.ffn.linear_1, network.down)

    def _table(self, stack: Any) -> ndarray:
        """Returns what the encoding adds to embeddings at each position: zeros if it adds nothing."""
        length, width = self.model.spec.max_length, self.model.spec.width
        weight = stack.embedding.weight
        positions = Positions.of(length, stack.position, device=weight.device)
        return array(stack.position.embed(weight.new_zeros(1, length, width), positions)[0])


def specification(trained: TrainedModel) -> Any:
    """Returns the specification of a model, with weights and without vocabularies."""
    import ctranslate2.specs as ct2

    parts, model = Parts(trained), trained.model
    specs: dict[str, Any] = {}
    if "encoder" in model.stacks:
        specs["encoder"] = ct2.TransformerEncoderSpec(**parts.shape("encoder"))
    if "decoder" in model.stacks:
        reads = "encoder" in model.stacks
        specs["decoder"] = ct2.TransformerDecoderSpec(**parts.shape("decoder"), with_encoder_attention=reads)
        head: Any = model.head
        _fill_linear(specs["decoder"].projection, head)
    for name, spec in specs.items():
        parts.fill(spec, name)
    if len(specs) == 2:
        whole = ct2.TransformerSpec(**specs)
        whole.config.decoder_start_token = SPECIAL_TOKENS[2]
        whole.config.add_source_eos = True
    elif "decoder" in specs:
        whole = ct2.TransformerDecoderModelSpec(**specs)
    else:
        whole = ct2.TransformerEncoderModelSpec(**specs)
    whole.config.unk_token, whole.config.bos_token, whole.config.eos_token = SPECIAL_TOKENS[1:4]
    whole.config.layer_norm_epsilon = parts.epsilon
    return whole


def array(tensor: Tensor) -> ndarray:
    """Returns a copy of a tensor as float32: CTranslate2 rounds arrays in place."""
    values: ndarray = tensor.detach().float().cpu().numpy().copy()
    return values


def _fill_norm(spec: Any, norm: Any) -> None:
    spec.gamma = array(norm.weight)
    if hasattr(spec, "beta"):
        spec.beta = np.zeros_like(spec.gamma) if norm.bias is None else array(norm.bias)


def _fill_linear(spec: Any, *modules: Any) -> None:
    """Puts one linear map, or several next to one another, in the place of one."""
    join: Callable[[list[ndarray]], ndarray] = np.concatenate
    spec.weight = join([array(module.weight) for module in modules])
    if modules[0].bias is not None:
        spec.bias = join([array(module.bias) for module in modules])


def _fill_attention(spec: Any, attention: Any, norm: Any, *, joined: int) -> None:
    """Puts an attention in its place: of queries, keys and values the last `joined` are one map."""
    maps = [attention.query, attention.key, attention.value]
    for target, module in zip(spec.linear, maps[: 3 - joined], strict=False):
        _fill_linear(target, module)
    _fill_linear(spec.linear[-2], *maps[3 - joined :])
    _fill_linear(spec.linear[-1], attention.output)
    _fill_norm(spec.layer_norm, norm)
