import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.errors import RecipeError
from reltucker.model import CORES, Arrangement, Core, RelationalTucker
from tests.conftest import build_core

NAMES = sorted(CORES)


def make(name: str, entity_dim: int, seed: int = 0) -> RelationalTucker:
    core = build_core(name, entity_dim, 5)
    model = RelationalTucker(11, 5, core).double()
    model.reset(torch.Generator().manual_seed(seed))
    return model.eval()  # the gates of srt are deterministic in evaluation


def explicit_scores(model: RelationalTucker, triples: torch.Tensor) -> torch.Tensor:
    """s_ijk = sum_abl g_abl e_ia e_jb r_kl, the equation itself."""
    i, k, j = triples.T
    tensor = model.core.tensor().double()
    return torch.einsum("abl,na,nb,nl->n", tensor, model.E[i], model.E[j], model.R[k]).detach()


@settings(max_examples=20, deadline=None)
@given(st.sampled_from(NAMES), st.integers(1, 4), st.integers(0, 2**32), st.integers(1, 20))
def test_three_questions_equal_the_explicit_tensor(
    name: str, half: int, seed: int, rows: int
) -> None:
    model = make(name, 2 * half, seed)
    generator = torch.Generator().manual_seed(seed)
    i = torch.randint(11, (rows,), generator=generator)
    k = torch.randint(5, (rows,), generator=generator)
    j = torch.randint(11, (rows,), generator=generator)
    expected = explicit_scores(model, torch.stack([i, k, j], dim=1))
    for direction, first, second, answer, matrix in (
        ("object", i, k, j, model.E),
        ("subject", j, k, i, model.E),
        ("relation", i, j, k, model.R),
    ):
        queries = model.queries(direction, first, second)
        scores = (queries * matrix[answer]).sum(dim=1)
        assert torch.allclose(scores, expected, atol=1e-9), direction
    assert torch.allclose(model.score(torch.stack([i, k, j], dim=1)), expected, atol=1e-9)
    mixing = model.mixing_matrix(int(k[0]))
    assert torch.allclose(model.E[i[0]] @ mixing @ model.E[j[0]], expected[0], atol=1e-9)


@settings(max_examples=10, deadline=None)
@given(st.sampled_from(NAMES), st.integers(0, 2**32))
def test_gradients_of_queries_equal_those_of_the_explicit_tensor(name: str, seed: int) -> None:
    model = make(name, 4, seed)
    generator = torch.Generator().manual_seed(seed)
    k = torch.randint(5, (9,), generator=generator)
    asks_subject = torch.rand(9, generator=generator) < 0.5
    arrangement = Arrangement.of(k, asks_subject, 5)
    rows, weights = torch.randn(2, 9, 4, dtype=torch.double, generator=generator).unbind()

    def loss(given: torch.Tensor, relations: torch.Tensor) -> torch.Tensor:
        mixing = model.core.mixing(relations[arrangement.relations])
        return (model.core.queries(mixing, given, arrangement) * weights).sum()

    inputs = [rows, model.R.detach()]
    inputs = [x.clone().requires_grad_() for x in inputs]
    assert torch.autograd.gradcheck(loss, inputs, atol=1e-6)
    if name == "drt":
        slices = next(model.core.parameters())
        loss(*inputs).backward()
        explicit = slices.detach().clone().requires_grad_()
        matrices = (inputs[1][k[arrangement.order]] @ explicit).view(-1, 4, 4)
        n = arrangement.objects
        value = torch.einsum("ba,bac,bc->", inputs[0][:n], matrices[:n], weights[:n])
        value = value + torch.einsum("ba,bac,bc->", weights[n:], matrices[n:], inputs[0][n:])
        value.backward()
        assert torch.allclose(slices.grad, explicit.grad, atol=1e-9)


@pytest.mark.parametrize("relation_dim", [1, 2, 3, 4, 5, 9])
def test_relation_queries_of_a_dense_core_are_its_slices(relation_dim: int) -> None:
    generator = torch.Generator().manual_seed(relation_dim)
    tensor = torch.randn(6, 6, relation_dim, dtype=torch.double, generator=generator)
    subjects, objects = torch.randn(2, 7, 6, dtype=torch.double, generator=generator)
    core = CORES["drt"].of(tensor)
    queries = core.relation_queries(subjects, objects)
    expected = torch.einsum("abl,na,nb->nl", tensor, subjects, objects)
    assert torch.allclose(queries, expected, atol=1e-9)
    weights = torch.randn(7, relation_dim, dtype=torch.double, generator=generator)
    (queries * weights).sum().backward()
    gradient = torch.einsum("nl,na,nb->lab", weights, subjects, objects).flatten(1)
    assert torch.allclose(core.slices.grad, gradient, atol=1e-9)


def blocks_of(tensor: torch.Tensor, blocks: int) -> torch.Tensor:
    """The blocks (B, s, d * d) on the diagonal of a core, as the block core stores them."""
    d, s = tensor.shape[0] // blocks, tensor.shape[2] // blocks
    parts = [tensor[b * d : b * d + d, b * d : b * d + d, b * s : b * s + s] for b in range(blocks)]
    return torch.stack([part.permute(2, 0, 1).flatten(1) for part in parts])


@settings(max_examples=20, deadline=None)
@given(st.sampled_from([1, 2, 3, 6]), st.sampled_from([1, 2]), st.integers(0, 2**32))
def test_a_block_core_is_a_sum_of_dense_ones(blocks: int, depth: int, seed: int) -> None:
    core = CORES["block"].build(6, blocks * depth, 5, blocks=blocks)
    model = RelationalTucker(11, 5, core).double()
    model.reset(torch.Generator().manual_seed(seed))
    tensor = core.tensor()
    assert torch.count_nonzero(tensor) == core.slices.numel() == core.nonzero_entries()
    assert torch.equal(blocks_of(tensor, blocks), core.slices)
    assert core.entry_range() == (core.slices.numel(), core.slices.numel())
    dense = RelationalTucker(11, 5, CORES["drt"].of(tensor)).double()
    with torch.no_grad():
        dense.E.copy_(model.E)
        dense.R.copy_(model.R)
    triples = torch.randint(5, (7, 3), generator=torch.Generator().manual_seed(seed))
    assert torch.allclose(model.score(triples), dense.score(triples), atol=1e-12)
    assert torch.allclose(model.mixing_matrix(2), dense.mixing_matrix(2), atol=1e-12)


@pytest.mark.parametrize(("name", "order"), [("distmult", [0, 1, 2, 3]), ("complex", [0, 2, 1, 3])])
def test_diagonal_models_are_block_cores_with_given_entries(name: str, order: list[int]) -> None:
    """DistMult has blocks of 1x1, ComplEx of 2x2: real and imaginary part of one number."""
    fixed = CORES[name].build(4, None, 3).tensor()[order][:, order][:, :, order]
    blocks = 4 if name == "distmult" else 2
    core = CORES["block"].build(4, 4, 3, blocks=blocks)
    with torch.no_grad():
        core.slices.copy_(blocks_of(fixed, blocks))
    assert torch.equal(core.tensor(), fixed)


def test_blocks_must_divide_the_sizes() -> None:
    with pytest.raises(RecipeError, match=r"entity_dim = 7.*multiple of core\.blocks = 2"):
        CORES["block"].build(7, None, 3)
    with pytest.raises(RecipeError, match=r"relation_dim = 5.*multiple of core\.blocks = 4"):
        CORES["block"].build(8, 5, 3, blocks=4)
    assert CORES["block"].build(300, None, 11, blocks=3).relation_dim == 33


def test_complex_core_is_the_papers_figure() -> None:
    g = CORES["complex"].build(4, None, 1).tensor()
    expected = torch.zeros(4, 4, 4)
    expected[0, 0, 0] = expected[2, 2, 0] = 1
    expected[1, 1, 1] = expected[3, 3, 1] = 1
    expected[0, 2, 2], expected[2, 0, 2] = 1, -1
    expected[1, 3, 3], expected[3, 1, 3] = 1, -1
    assert torch.equal(g, expected)


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(RecipeError, match=r"entity_dim = 7.*even"):
        CORES["complex"].build(7, None, 3)
    with pytest.raises(RecipeError, match=r"relation_dim = 5.*leave it out"):
        CORES["complex"].build(8, 5, 3)


def test_parent_is_mother_plus_father_with_two_slices() -> None:
    core = CORES["drt"].build(3, 2, relations=3)
    model = RelationalTucker(6, 3, core)
    model.reset(torch.Generator().manual_seed(1))
    with torch.no_grad():
        model.R.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    mother, father, parent = (model.mixing_matrix(k) for k in range(3))
    assert torch.allclose(parent, mother + father)


def test_every_core_has_a_name_that_finds_it() -> None:
    for name, core in CORES.items():
        assert issubclass(core, Core)
        assert core.name == name
