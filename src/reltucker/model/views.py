"""The two views of a decomposition, and what can be turned into what, with the same scores.

In the fixed-core view G is given (or learned) and r_k says what is placed where. In the
constrained-core view (Sec. bitucker) R is the identity, so that G_k = M_k holds the mixing matrices
themselves. Batch normalisation is written into the factors first, which is exact.
"""

import torch
from torch import Tensor

from reltucker.errors import ReltuckerError
from reltucker.model.cores import Core, DenseCore, FixedCore, RescalCore, joined
from reltucker.model.relational_tucker import RelationalTucker


@torch.no_grad()
def without_normalisation(model: RelationalTucker) -> RelationalTucker:
    """The model with the same scores and no batch normalisation; itself where it has none.

    After training a score is (s_1 e_i + t_1)^T M_k diag(s_2) e_j + t_2 . e_j with scales s and
    shifts t (products of vectors go entry by entry). Embeddings get one more coordinate, which is
    1: E' = (E, 1), R' = (R, 1). It has its own row of the core for t_1^T M_k diag(s_2), and t_2 is
    that row of a slice of its own: d_e' = d_e + 1, d_r' = d_r + 1. Cores that stand side by side
    get such coordinates each, where they are normalised.
    """
    if model.norm is None:
        return model
    cores = model.core.side_by_side()
    entity_dims = [core.entity_dim for core in cores]
    parts = zip(
        cores,
        torch.split(model.E, entity_dims, dim=1),
        torch.split(model.R, [core.relation_dim for core in cores], dim=1),
        torch.split(torch.stack(model.norm.affine()), entity_dims, dim=1),
        strict=True,
    )
    changed, entities, relations = zip(*(_written_in(*part) for part in parts), strict=True)
    return _assemble(model, torch.cat(entities, 1), torch.cat(relations, 1), joined(changed))


def _written_in(
    core: Core, entities: Tensor, relations: Tensor, affine: Tensor
) -> tuple[Core, Tensor, Tensor]:
    """A core, E and R with the scales and shifts (4, d_e) of a normalisation written into them."""
    s_1, t_1, s_2, t_2 = affine
    if not t_1.any() and not t_2.any() and torch.allclose(affine[::2], affine.new_ones(()), 1e-6):
        return core, entities, relations  # the identity, beside parts that are normalised
    tensor = core.tensor().to(entities)
    d_e, _, d_r = tensor.shape
    g = tensor.new_zeros(d_e + 1, d_e + 1, d_r + 1)
    g[:d_e, :d_e, :d_r] = s_1[:, None, None] * tensor * s_2[:, None]
    g[d_e, :d_e, :d_r] = torch.einsum("i,ijl->jl", t_1, tensor) * s_2[:, None]
    g[d_e, :d_e, d_r] = t_2
    return DenseCore.of(g), _with_ones(entities), _with_ones(relations)


def explicit_core_view(model: RelationalTucker) -> RelationalTucker:
    """The same E and R with the core written out, entry by entry."""
    model = without_normalisation(model)
    return _assemble(model, model.E, model.R, DenseCore.of(model.core.tensor().to(model.E)))


def constrained_core_view(model: RelationalTucker) -> RelationalTucker:
    """R = identity and G_k = M_k, hence d_r = K."""
    model = without_normalisation(model)
    matrices = _matrices(model)
    identity = torch.eye(len(matrices)).to(model.R)
    return _assemble(model, model.E, identity, DenseCore.of(matrices.permute(1, 2, 0)))


def fixed_core_view(
    model: RelationalTucker, core: FixedCore, tolerance: float = 1e-5
) -> RelationalTucker:
    """The bilinear model with the given pattern that has the same mixing matrices.

    r_kl is read off the places of M_k that the pattern gives to l. Raises ReltuckerError when the
    mixing matrices do not have the pattern.
    """
    if model.norm is not None:
        raise ReltuckerError(
            f"a model with batch normalisation adds a term for each object, for which the pattern "
            f"of {core.name} has no place; convert it with as_rescal or constrained_core_view"
        )
    if core.entity_dim != model.core.entity_dim:
        raise ReltuckerError(
            f"the pattern has entity_dim {core.entity_dim}, the model {model.core.entity_dim}"
        )
    matrices = _matrices(model)
    i, j, l, value = (x.to(matrices.device) for x in core.entries())
    weight = torch.bincount(l, weights=value**2, minlength=core.relation_dim).to(matrices)
    relations = torch.zeros(len(matrices), core.relation_dim).to(matrices)
    relations.index_add_(1, l, matrices[:, i, j] * value.to(matrices))
    relations /= weight
    difference = (core.mixing_matrices(relations) - matrices).abs().max()
    if difference > tolerance * max(1.0, float(matrices.abs().max())):
        raise ReltuckerError(
            f"the mixing matrices do not have the pattern of {core.name} (off by {difference:.2g})"
        )
    return _assemble(model, model.E, relations, core)


def as_rescal(model: RelationalTucker) -> RelationalTucker:
    """The RESCAL model with the same mixing matrices: r_k = vec(M_k)."""
    model = without_normalisation(model)
    matrices = _matrices(model)
    return _assemble(model, model.E, matrices.flatten(1), RescalCore(model.core.entity_dim))


def from_tucker3(
    subjects: Tensor, objects: Tensor, relations: Tensor, core: Tensor
) -> RelationalTucker:
    """The RT decomposition of the same tensor as the Tucker3 decomposition A, B, C, H.

    E = (A B), R = C, and H_l stands in the upper right block of G_l:
    A (N, d_a), B (N, d_b), C (K, d_c), H (d_a, d_b, d_c) to d_e = d_a + d_b, d_r = d_c.
    """
    d_a, d_b, d_c = core.shape
    shapes = (subjects.shape[1], objects.shape[1], relations.shape[1])
    if shapes != (d_a, d_b, d_c) or len(subjects) != len(objects):
        raise ReltuckerError(
            f"the factors do not fit: A {tuple(subjects.shape)}, B {tuple(objects.shape)}, "
            f"C {tuple(relations.shape)}, H {tuple(core.shape)}; A and B need a row for each entity"
        )
    g = core.new_zeros(d_a + d_b, d_a + d_b, d_c)
    g[:d_a, d_a:] = core
    model = RelationalTucker(len(subjects), len(relations), DenseCore.of(g)).to(core.dtype)
    with torch.no_grad():
        model.E.copy_(torch.cat([subjects, objects], dim=1))
        model.R.copy_(relations)
    return model


@torch.no_grad()
def _matrices(model: RelationalTucker) -> Tensor:
    return model.core.mixing_matrices(model.R)


def _with_ones(rows: Tensor) -> Tensor:
    return torch.cat([rows, rows.new_ones(len(rows), 1)], dim=1)


@torch.no_grad()
def _assemble(
    model: RelationalTucker, entities: Tensor, relations: Tensor, core: Core
) -> RelationalTucker:
    viewed = RelationalTucker(len(entities), model.relations, core, reciprocal=model.reciprocal)
    viewed = viewed.to(entities.device, entities.dtype)
    viewed.E.copy_(entities)
    viewed.R.copy_(relations)
    return viewed
