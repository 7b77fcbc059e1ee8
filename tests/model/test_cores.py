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
