import pytest
import torch
import torch.nn.functional as F

from reltucker.errors import RecipeError
from reltucker.kernels import Dropout, apply_dropout, draw_candidates
from reltucker.model import CORES, RelationalTucker, RelationGroups
from reltucker.model.dropout import dropped
from reltucker.training import TrainSettings
from reltucker.training.objective import NegativeSampling, check_negatives


def make(name: str, reciprocal: bool) -> RelationalTucker:
    model = RelationalTucker(20, 4, CORES[name].build(6, None, 4), reciprocal=reciprocal)
    model.reset(torch.Generator().manual_seed(3))
    return model


def mixing_matrices(
    model: RelationalTucker, groups: RelationGroups, shift: int, dropout: Dropout
) -> torch.Tensor:
    """The explicit M_k of every row, after dropout on their compact form."""
    compact = dropped(model.core.mixing(model.R[groups.relations + shift]), dropout)
    if compact.dim() == 3:
        return compact[groups.index]
    return model.core.mixing_matrices(compact[groups.index])


@pytest.mark.parametrize("name", sorted(CORES))
@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("rates", [(0.0, 0.0), (0.4, 0.3)])
def test_gradients_equal_those_of_the_written_loss(
    name: str, reciprocal: bool, rates: tuple[float, float]
) -> None:
    """The loss of the module's docstring in plain autograd, with the same draws."""
    settings = TrainSettings(negatives=5, entity_dropout=rates[0], mixing_dropout=rates[1])
    model = make(name, reciprocal)
    triples = torch.tensor([[0, 1, 2], [3, 1, 0], [5, 3, 5], [2, 0, 19], [0, 1, 4]])
    objective = NegativeSampling(model, settings, population=18)
    loss = objective.backward(triples, torch.Generator().manual_seed(9))
    gradients = {n: p.grad.clone() for n, p in model.named_parameters()}

    keys = torch.randint(2**62, (4,), generator=torch.Generator().manual_seed(9)).tolist()
    model.zero_grad()
    groups = RelationGroups.of(triples[:, 1])
    i, _, j = triples[groups.order].T
    mask = (
        apply_dropout(torch.ones(20, 6), Dropout(rates[0], keys[0]))
        if rates[0]
        else torch.ones(20, 6)
    )
    entities = model.E * mask
    dropout = Dropout(rates[1], keys[1])
    matrices = mixing_matrices(model, groups, 0, dropout)
    inverse = matrices.transpose(1, 2)
    if reciprocal:
        inverse = mixing_matrices(model, groups, 4, dropout.another())
    objects, subjects = draw_candidates(torch.cat([j, i]), 5, 18, keys[2]).chunk(2)
    object_scores = torch.einsum("ba,bac,bnc->bn", entities[i], matrices, entities[objects])
    subject_scores = torch.einsum("ba,bac,bnc->bn", entities[j], inverse, entities[subjects])
    first = torch.zeros(5, dtype=torch.long)
    expected = F.cross_entropy(object_scores, first) + F.cross_entropy(subject_scores, first)
    expected.backward()

    assert loss.item() == pytest.approx(expected.item(), rel=1e-5)
    for parameter_name, parameter in model.named_parameters():
        assert torch.allclose(gradients[parameter_name], parameter.grad, atol=1e-6), parameter_name


def test_candidates_begin_with_the_true_entity_and_hold_it_once() -> None:
    true = torch.arange(10).repeat(50)
    candidates = draw_candidates(true, 8, 10, key=4)
    assert candidates.shape == (500, 9)
    assert torch.equal(candidates[:, 0], true)
    assert all(len(set(row)) == 9 for row in candidates.tolist())
    assert candidates.max() == 9
    # Each of the nine others is left out as often as any other.
    counts = torch.bincount(candidates[:, 1:].flatten(), minlength=10)
    assert counts.min() > 350


def test_more_negatives_than_entities_are_refused() -> None:
    with pytest.raises(
        RecipeError, match=r"train\.negatives = 24.*only 10 entities occur in train.*at most 9"
    ):
        check_negatives(24, 10)


def test_a_true_entity_outside_of_the_population_is_kept_apart() -> None:
    candidates = draw_candidates(torch.tensor([15]), 9, 10, key=2)
    assert candidates[0, 0] == 15
    assert candidates[0, 1:].max() < 10
