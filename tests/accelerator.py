"""A device that is not the CPU, where there is none: tensors that say so, and hold their numbers in
an ordinary one. Whatever mixes them with tensors of the CPU fails, as it would on a GPU, and what
they give can be compared with what the CPU gives."""

from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_flatten, tree_map, tree_map_only

DEVICE = torch.device("meta")
INDEXING = (
    torch.ops.aten.index.Tensor,
    torch.ops.aten.index_put_.default,
    torch.ops.aten.index_put.default,
    torch.ops.aten._index_put_impl_.default,
)
"""What takes indices of the CPU, too."""


class OnDevice(Tensor):
    """A tensor of the device; its numbers are in `inner`."""

    inner: Tensor

    def tolist(self) -> Any:
        return self.inner.tolist()

    @staticmethod
    def __new__(cls, inner: Tensor) -> "OnDevice":
        made: OnDevice = Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=DEVICE,
        )
        made.inner = inner
        return made

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


class Accelerator(TorchDispatchMode):
    """Within it, tensors can be made on the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return run(func, args, kwargs or {})


def run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    """Do it on the CPU, and give what comes out the device that it would have."""
    leaves = [leaf for leaf in tree_flatten((args, kwargs))[0] if isinstance(leaf, Tensor)]
    wrapped = {id(leaf.inner): leaf for leaf in leaves if isinstance(leaf, OnDevice)}
    device = kwargs.get("device")
    device = None if device is None else torch.device(device)
    moves = func is torch.ops.aten._to_copy.default or func is torch.ops.aten.copy_.default
    if wrapped and not moves:
        checked = leaves
        if func in INDEXING and isinstance(args[0], OnDevice):
            checked = leaves[:1] + leaves[1 + len([x for x in args[1] if x is not None]) :]
        for leaf in checked:  # numbers without dimensions may come from anywhere
            if not isinstance(leaf, OnDevice) and leaf.dim():
                raise RuntimeError(f"{func}: tensors on the CPU and on the device are mixed")
    if device is not None:
        kwargs = {**kwargs, "device": torch.device("cpu")}
    inner_args, inner_kwargs = tree_map_only(OnDevice, lambda x: x.inner, (args, kwargs))
    out = func(*inner_args, **inner_kwargs)
    stays = bool(wrapped) if device is None else device.type == DEVICE.type
    if func is torch.ops.aten.copy_.default:
        return args[0]
    if not stays:
        return out
    return tree_map(lambda x: wrapped.get(id(x), OnDevice(x)) if isinstance(x, Tensor) else x, out)
