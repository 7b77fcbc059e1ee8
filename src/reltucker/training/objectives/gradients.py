"""What a step hands to the optimiser: the gradients of all parameters, by name."""

from dataclasses import dataclass

from torch import Tensor

from reltucker.kernels import add_rows


@dataclass(frozen=True, eq=False)
class RowGradient:
    """The gradient of a matrix, zero but for some rows: distinct ids (n,), values (n, d)."""

    ids: Tensor
    values: Tensor

    def dense(self, like: Tensor) -> Tensor:
        """The whole matrix."""
        out = like.new_zeros(like.shape)
        return add_rows(out, self.ids, self.values)


Gradients = dict[str, Tensor | RowGradient]
