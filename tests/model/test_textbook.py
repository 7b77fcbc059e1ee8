"""Every bilinear model against the formula of its own paper, written without any core."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.model import CORES, RelationalTucker
from tests.conftest import build_core


def make(name: str, entity_dim: int, seed: int, **options: float) -> RelationalTucker:
    core = build_core(name, entity_dim, 4, **options)
    model = RelationalTucker(7, 4, core).double()
    model.reset(torch.Generator().manual_seed(seed))
    return model.eval()


def all_triples() -> Tensor:
    return torch.cartesian_prod(torch.arange(7), torch.arange(4), torch.arange(7))


def rescal(e_i: Tensor, r: Tensor, e_j: Tensor) -> Tensor:
    """Nickel et al. 2011: a full matrix for each relation."""
    d = e_i.shape[1]
    return torch.einsum("na,nab,nb->n", e_i, r.view(-1, d, d), e_j)


def distmult(e_i: Tensor, r: Tensor, e_j: Tensor) -> Tensor:
    """Yang et al. 2015: a diagonal matrix."""
    return torch.einsum("na,na,na->n", e_i, r, e_j)


def cp(e_i: Tensor, r: Tensor, e_j: Tensor) -> Tensor:
    """Hitchcock 1927: one embedding of an entity as subject, another as object."""
    as_subject, _ = e_i.chunk(2, dim=1)
    _, as_object = e_j.chunk(2, dim=1)
    return (as_subject * r * as_object).sum(dim=1)


def complex_(e_i: Tensor, r: Tensor, e_j: Tensor) -> Tensor:
    """Trouillon et al. 2016: Re(<e_i, r, conj(e_j)>)."""
    i, k, j = (torch.complex(*x.chunk(2, dim=1)) for x in (e_i, r, e_j))
    return (i * k * j.conj()).sum(dim=1).real


def hole(e_i: Tensor, r: Tensor, e_j: Tensor) -> Tensor:
    """Nickel et al. 2016: r^T (e_i * e_j), [a * b]_k = sum_t a_t b_(k + t mod d)."""
    d = e_i.shape[1]
    correlation = torch.stack(
        [(e_i * torch.roll(e_j, -k, dims=1)).sum(dim=1) for k in range(d)], dim=1
    )
    return (r * correlation).sum(dim=1)


FORMULAS = {
    "rescal": rescal,
    "distmult": distmult,
    "cp": cp,
    "complex": complex_,
    "hole": hole,
}


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(sorted(FORMULAS)), st.integers(1, 4), st.integers(0, 2**32))
def test_scores_equal_the_formula(name: str, half: int, seed: int) -> None:
    model = make(name, 2 * half, seed)
    triples = all_triples()
    i, k, j = triples.T
    expected = FORMULAS[name](model.E.detach()[i], model.R.detach()[k], model.E.detach()[j])
    assert torch.allclose(model.score(triples), expected, atol=1e-9)


@pytest.mark.parametrize("entity_dim", [1, 3, 5])
@pytest.mark.parametrize("name", ["rescal", "distmult", "hole"])
def test_odd_dimensions_where_they_are_allowed(name: str, entity_dim: int) -> None:
    model = make(name, entity_dim, seed=1)
    i, k, j = all_triples().T
    expected = FORMULAS[name](model.E.detach()[i], model.R.detach()[k], model.E.detach()[j])
    assert torch.allclose(model.score(all_triples()), expected, atol=1e-9)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 9), st.integers(0, 2**32), st.floats(0, 1))
def test_analogy_has_commuting_normal_mixing_matrices(
    entity_dim: int, seed: int, share: float
) -> None:
    """Liu et al. 2017: M_k M_k^T = M_k^T M_k and M_k M_l = M_l M_k."""
    model = make("analogy", entity_dim, seed, scalar_share=share)
    matrices = [model.mixing_matrix(k) for k in range(4)]
    for m in matrices:
        assert torch.allclose(m @ m.T, m.T @ m, atol=1e-9)
        for other in matrices:
            assert torch.allclose(m @ other, other @ m, atol=1e-9)


def test_analogy_ranges_from_distmult_to_complex() -> None:
    scalars = make("analogy", 6, seed=2, scalar_share=1.0)
    assert torch.equal(scalars.core.tensor(), CORES["distmult"].build(6, None, 4).tensor())
    pairs = make("analogy", 6, seed=2, scalar_share=0.0)
    complex_core = CORES["complex"].build(6, None, 4).tensor()
    assert torch.equal(pairs.core.tensor(), complex_core.transpose(0, 1))
    block = make("analogy", 2, seed=2, scalar_share=0.0)
    a, b = block.R.detach()[0]
    assert torch.equal(block.mixing_matrix(0), torch.stack([a, -b, b, a]).view(2, 2))


def test_distmult_is_symmetric_and_the_others_are_not() -> None:
    triples = all_triples()
    for name in CORES:
        model = make(name, 4, seed=3)
        symmetric = torch.allclose(model.score(triples), model.score(triples.flip(1)))
        assert symmetric == (name == "distmult")


def test_hole_and_complex_are_equivalent_through_the_fourier_transform() -> None:
    """Hayashi and Shimbo 2017: s = 1/d Re sum_f r^(f) conj(e_i^(f)) e_j^(f), a ComplEx score."""
    model = make("hole", 6, seed=4)
    entities = torch.fft.fft(model.E.detach())
    relations = torch.fft.fft(model.R.detach()) / 6
    twin = RelationalTucker(7, 4, CORES["complex"].build(12, None, 4)).double()
    with torch.no_grad():
        twin.E.copy_(torch.cat([entities.real, entities.imag], dim=1))
        twin.R.copy_(torch.cat([relations.real, relations.imag], dim=1))
    assert torch.allclose(twin.score(all_triples()), model.score(all_triples()), atol=1e-9)


def test_rescal_core_is_the_papers_figure() -> None:
    g = CORES["rescal"].build(2, None, 1).tensor()
    slices = [[[1, 0], [0, 0]], [[0, 1], [0, 0]], [[0, 0], [1, 0]], [[0, 0], [0, 1]]]
    for l, expected in enumerate(slices):
        assert g[:, :, l].tolist() == expected


def test_one_based_formulas_of_the_paper() -> None:
    d = 6
    g = CORES["rescal"].build(d, None, 1).tensor()
    for k in range(1, d * d + 1):
        i, j = (k - 1) // d + 1, (k - 1) % d + 1
        assert g[i - 1, j - 1, k - 1] == 1
    assert g.sum() == d * d

    g = CORES["complex"].build(d, None, 1).tensor()
    expected = torch.zeros(d, d, d)
    for k in range(1, d + 1):
        if k <= d // 2:
            expected[k - 1, k - 1, k - 1] = 1
            expected[k + d // 2 - 1, k + d // 2 - 1, k - 1] = 1
        else:
            expected[k - d // 2 - 1, k - 1, k - 1] = 1
            expected[k - 1, k - d // 2 - 1, k - 1] = -1
    assert torch.equal(g, expected)

    g = CORES["cp"].build(d, None, 1).tensor()
    assert all(g[i - 1, i + d // 2 - 1, i - 1] == 1 for i in range(1, d // 2 + 1))
    assert g.sum() == d // 2

    g = CORES["hole"].build(d, None, 1).tensor()
    for k in range(1, d + 1):
        assert all(g[t - 1, (k + t - 2) % d, k - 1] == 1 for t in range(1, d + 1))
    assert g.sum() == d * d


@pytest.mark.parametrize("name", ["cp", "complex"])
def test_odd_dimensions_where_they_are_not(name: str) -> None:
    with pytest.raises(RecipeError, match=rf"entity_dim = 5: {name} needs an even number"):
        CORES[name].build(5, None, 4)
