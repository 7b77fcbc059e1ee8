"""Memory of a training: freed blocks stay with the process, large tensors lie in large pages."""

import ctypes
import sys

from torch import Tensor

_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
_MADV_HUGEPAGE, _MADV_COLLAPSE = 14, 25

PAGE = 4096
LARGE = 4 << 20
"""Bytes from which on a tensor is worth pages of its own."""


def keep_freed_memory() -> None:
    """Ask glibc to reuse freed blocks instead of returning them to the kernel.

    A training step allocates and frees tensors of tens of megabytes. By default each comes as a
    fresh mapping whose pages fault one by one; reused blocks cost nothing. Other C libraries have
    no such call and keep their own ways.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        mallopt = ctypes.CDLL("libc.so.6").mallopt
    except (OSError, AttributeError):
        return
    mallopt(_M_MMAP_MAX, 0)
    mallopt(_M_TRIM_THRESHOLD, 2**31 - 1)


def use_huge_pages(*tensors: Tensor) -> None:
    """Ask Linux to hold large tensors in pages of megabytes, where it can.

    Steps that touch some ten thousand rows of a matrix of gigabytes otherwise look up an address
    for nearly every row.
    """
    if not sys.platform.startswith("linux"):
        return
    try:
        madvise = ctypes.CDLL("libc.so.6").madvise
    except (OSError, AttributeError):
        return
    for tensor in tensors:
        size = tensor.numel() * tensor.element_size()
        if tensor.device.type != "cpu" or size < LARGE:
            continue
        begin = -(-tensor.data_ptr() // PAGE) * PAGE
        length = (tensor.data_ptr() + size - begin) // PAGE * PAGE
        for advice in (_MADV_HUGEPAGE, _MADV_COLLAPSE):  # advice that is not known changes nothing
            madvise(ctypes.c_void_p(begin), ctypes.c_size_t(length), advice)
