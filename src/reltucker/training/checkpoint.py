"""A nested state, as `state_dict` gives it, as named tensors and JSON, and back.

Tensors get the name of their path, such as `optimizer.E.sum`; in the JSON stands {"tensor": name}.
"""

from typing import Any

from torch import Tensor


def pack(state: Any, path: str = "") -> tuple[dict[str, Tensor], Any]:
    """The tensors of a nested state by name, and all else, JSON-ready."""
    if isinstance(state, Tensor):
        return {path: state.detach()}, {"tensor": path}
    if not isinstance(state, dict):
        return {}, state
    tensors: dict[str, Tensor] = {}
    rest = {}
    for key, value in state.items():
        found, rest[key] = pack(value, f"{path}.{key}" if path else key)
        tensors |= found
    return tensors, rest


def unpack(tensors: dict[str, Tensor], rest: Any) -> Any:
    """The inverse of `pack`; raises KeyError where a tensor is missing."""
    if not isinstance(rest, dict):
        return rest
    if rest.keys() == {"tensor"}:
        return tensors[rest["tensor"]]
    return {key: unpack(tensors, value) for key, value in rest.items()}
