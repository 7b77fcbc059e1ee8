"""HolE (Sec. bilinear)."""

import torch
from torch import Tensor

from reltucker.model.cores.fixed import Entries, RowCore


class HoleCore(RowCore):
    """s = r_k . (e_i * e_j) with * the circular correlation, computed by FFT."""

    name = "hole"
    title = "HolE"

    def entries(self) -> Entries:
        """g_(t, (l + t) mod d_e, l) = 1."""
        d = self.entity_dim
        t = torch.arange(d).repeat_interleave(d)
        l = torch.arange(d).repeat(d)
        return t, (l + t) % d, l, torch.ones(d * d)

    def left(self, subjects: Tensor, relations: Tensor) -> Tensor:
        """The circular convolution of e_i and r: z_j = sum_t x_t r_(j - t mod d)."""
        product = torch.fft.rfft(subjects) * torch.fft.rfft(relations)
        convolved: Tensor = torch.fft.irfft(product, n=self.entity_dim)
        return convolved

    def right(self, relations: Tensor, objects: Tensor) -> Tensor:
        """The circular correlation of r and e_j."""
        return self.between(relations, objects)

    def between(self, subjects: Tensor, objects: Tensor) -> Tensor:
        """The circular correlation of e_i and e_j: z_l = sum_t x_t y_(l + t mod d)."""
        product = torch.fft.rfft(subjects).conj() * torch.fft.rfft(objects)
        correlated: Tensor = torch.fft.irfft(product, n=self.entity_dim)
        return correlated
