import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import ReltuckerError
from reltucker.model import (
    CORES,
    RelationalTucker,
    as_rescal,
    constrained_core_view,
    explicit_core_view,
    fixed_core_view,
    from_tucker3,
    sizes_of,
    without_normalisation,
)
from reltucker.model.cores import FixedCore
from tests.conftest import build_core

BILINEAR = sorted(name for name, core in CORES.items() if issubclass(core, FixedCore))


def make(
    name: str, entity_dim: int = 4, seed: int = 0, reciprocal: bool = False
) -> RelationalTucker:
    core = build_core(name, entity_dim, 5)
    model = RelationalTucker(6, 5, core, reciprocal=reciprocal)
    model.reset(torch.Generator().manual_seed(seed))
    return model.eval()


def triples() -> torch.Tensor:
    return torch.cartesian_prod(torch.arange(6), torch.arange(5), torch.arange(6))


@settings(max_examples=30, deadline=None)
@given(st.sampled_from(sorted(CORES)), st.integers(1, 3), st.integers(0, 2**32), st.booleans())
def test_every_view_keeps_every_score(name: str, half: int, seed: int, reciprocal: bool) -> None:
    model = make(name, 2 * half, seed, reciprocal)
    first, second = torch.arange(6).repeat(5), torch.arange(5).repeat_interleave(6)
    views = [explicit_core_view(model), constrained_core_view(model), as_rescal(model)]
    if name in BILINEAR:
        views.append(fixed_core_view(views[1], CORES[name].build(2 * half, None, 5)))
    for view in views:
        assert torch.allclose(view.score(triples()), model.score(triples()), atol=1e-5)
        for direction in ("object", "subject"):
            expected = model.queries(direction, first, second) @ model.E.T
            got = view.queries(direction, first, second) @ view.E.T
            assert torch.allclose(got, expected, atol=1e-5)


def normalised(name: str, seed: int = 0) -> RelationalTucker:
    """A model whose batch normalisation has seen data, with weights and biases of its own."""
    core = build_core(name, 4, 5)
    model = RelationalTucker(6, 5, core, reciprocal=True, batch_norm=True)
    generator = torch.Generator().manual_seed(seed)
    model.reset(generator)
    assert model.norm is not None
    with torch.no_grad():
        for norm in (model.norm.before, model.norm.after):
            for part in (norm.weight, norm.bias, norm.running_mean):
                part.copy_(torch.randn(4, generator=generator))
            norm.running_var.copy_(torch.rand(4, generator=generator) + 0.1)
    return model.eval()


@pytest.mark.parametrize("name", sorted(CORES))
def test_batch_normalisation_is_written_into_every_view(name: str) -> None:
    model = normalised(name)
    first, second = torch.arange(6).repeat(5), torch.arange(5).repeat_interleave(6)
    views = [without_normalisation, explicit_core_view, constrained_core_view, as_rescal]
    for view in (change(model) for change in views):
        assert view.norm is None
        assert torch.allclose(view.score(triples()), model.score(triples()), atol=1e-4)
        for direction in ("object", "subject"):
            expected = model.queries(direction, first, second) @ model.E.T
            got = view.queries(direction, first, second) @ view.E.T
            assert torch.allclose(got, expected, atol=1e-4)
    plain = make(name)
    assert without_normalisation(plain) is plain


def test_a_pattern_has_no_place_for_batch_normalisation() -> None:
    with pytest.raises(ReltuckerError, match="adds a term for each object"):
        fixed_core_view(normalised("complex"), CORES["complex"].build(4, None, 5))


def test_the_parameters_of_a_normalisation_count() -> None:
    model = normalised("complex")
    for view in ("fixed", "constrained"):
        sizes = sizes_of(model, view)
        assert sizes.nnfp_normalisation == 16
        factors = sizes.nnfp_core + sizes.nnfp_relations + sizes.nnfp_entities
        assert sizes.effective_parameters == factors + 16


def test_the_constrained_core_holds_the_mixing_matrices() -> None:
    model = make("complex")
    view = constrained_core_view(model)
    assert torch.equal(view.R, torch.eye(5))
    for k in range(5):
        assert torch.allclose(view.core.tensor()[:, :, k], model.mixing_matrix(k))


def test_a_pattern_that_does_not_fit_is_refused() -> None:
    view = constrained_core_view(make("complex"))
    with pytest.raises(ReltuckerError, match="do not have the pattern of distmult"):
        fixed_core_view(view, CORES["distmult"].build(4, None, 5))
    with pytest.raises(ReltuckerError, match="entity_dim 6"):
        fixed_core_view(view, CORES["distmult"].build(6, None, 5))


@pytest.mark.parametrize("name", BILINEAR)
@pytest.mark.parametrize("reciprocal", [False, True])
def test_effective_sizes_are_the_same_in_both_views(name: str, reciprocal: bool) -> None:
    model = make(name, reciprocal=reciprocal)
    fixed, constrained = sizes_of(model), sizes_of(model, "constrained")
    assert fixed.effective_relation_size == constrained.effective_relation_size
    assert fixed.effective_parameters == constrained.effective_parameters
    expected = {"rescal": 16, "cp": 2}.get(name, 4)
    assert fixed.effective_relation_size == expected * (1 + reciprocal)
    assert (fixed.nnfp_core, constrained.nnfp_relations) == (0, 0)


def test_published_size_with_reciprocal_relations() -> None:
    core = CORES["complex"].build(100, None, 237)
    model = RelationalTucker(15_000, 237, core, reciprocal=True)
    model.reset(torch.Generator().manual_seed(0))
    assert sizes_of(model).effective_relation_size == 200
    assert sizes_of(model).effective_parameters == 1_547_400


@pytest.mark.parametrize(
    ("name", "entries"),
    [("rescal", 16), ("distmult", 4), ("cp", 2), ("complex", 8), ("hole", 16), ("analogy", 6)],
)
def test_core_density_counts_the_pattern(name: str, entries: int) -> None:
    core = CORES[name].build(4, None, 5)
    assert core.nonzero_entries() == entries == int(torch.count_nonzero(core.tensor()))
    assert core.density() == entries / (16 * core.relation_dim)


@settings(max_examples=20, deadline=None)
@given(st.integers(1, 4), st.integers(1, 4), st.integers(1, 4), st.integers(0, 2**32))
def test_tucker3_becomes_rt(d_a: int, d_b: int, d_c: int, seed: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    a, b = (torch.randn(6, d, generator=generator, dtype=torch.double) for d in (d_a, d_b))
    c = torch.randn(5, d_c, generator=generator, dtype=torch.double)
    h = torch.randn(d_a, d_b, d_c, generator=generator, dtype=torch.double)
    expected = torch.einsum("xyz,ix,jy,kz->ikj", h, a, b, c)
    model = from_tucker3(a, b, c, h)
    assert (model.core.entity_dim, model.core.relation_dim) == (d_a + d_b, d_c)
    assert torch.allclose(model.score(triples()).view(6, 5, 6), expected, atol=1e-9)


def test_factors_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ReltuckerError, match="factors do not fit"):
        from_tucker3(torch.ones(6, 2), torch.ones(5, 2), torch.ones(4, 3), torch.ones(2, 2, 3))


def test_a_real_tucker_decomposition_becomes_rt() -> None:
    tensorly = pytest.importorskip("tensorly")
    from tensorly.decomposition import tucker

    x = torch.randn(6, 6, 5, generator=torch.Generator().manual_seed(0), dtype=torch.double)
    core, (a, b, c) = tucker(x.numpy(), rank=[4, 3, 2], random_state=0)
    expected = torch.as_tensor(tensorly.tucker_to_tensor((core, (a, b, c)))).permute(0, 2, 1)
    factors = [torch.tensor(f) for f in (a, b, c)]
    model = from_tucker3(*factors, torch.tensor(core))
    assert torch.allclose(model.score(triples()).view(6, 5, 6), expected, atol=1e-9)
