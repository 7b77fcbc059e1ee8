"""The model as a module of torch: inside other modules, with gradients, in either precision."""

import copy

import pytest
import torch
from torch import nn

from reltucker.errors import ReltuckerError
from reltucker.model import CORES, RelationalTucker
from tests.conftest import build_core

TRIPLES = torch.tensor([[0, 0, 1], [3, 2, 3], [5, 1, 0], [1, 0, 4], [2, 2, 2]])


def make(name: str, *, batch_norm: bool = False, seed: int = 0) -> RelationalTucker:
    core = build_core(name, 4, 3)
    model = RelationalTucker(6, 3, core, reciprocal=batch_norm, batch_norm=batch_norm)
    model.reset(torch.Generator().manual_seed(seed))
    return model


def gradients_agree(model: RelationalTucker, seed: int = 0) -> bool:
    """Whether autograd agrees with differences, for every parameter."""
    names, parameters = zip(*model.named_parameters(), strict=True)

    def scores(*values: torch.Tensor) -> torch.Tensor:
        torch.manual_seed(seed)
        return torch.func.functional_call(model, dict(zip(names, values, strict=True)), TRIPLES)

    inputs = [p.detach().clone().requires_grad_() for p in parameters]
    return torch.autograd.gradcheck(scores, inputs, fast_mode=True)


@pytest.mark.parametrize("mode", ["train", "eval"])
@pytest.mark.parametrize("batch_norm", [False, True])
@pytest.mark.parametrize("name", sorted(CORES))
def test_scores_are_differentiable(name: str, batch_norm: bool, mode: str) -> None:
    model = make(name, batch_norm=batch_norm).double().train(mode == "train")
    if model.norm is not None:  # so that evaluation is not the identity
        for norm in (model.norm.before, model.norm.after):
            norm.running_mean.normal_(generator=torch.Generator().manual_seed(1))
            norm.momentum = 0.0  # differences need the same function at every call
    assert gradients_agree(model)


@pytest.mark.parametrize("name", sorted(CORES))
def test_scores_are_those_of_ranking_in_either_precision(name: str) -> None:
    for model in (make(name).eval(), make(name).eval().double()):
        scores = model(TRIPLES)
        assert scores.dtype == model.E.dtype
        assert scores.requires_grad
        assert torch.allclose(scores.detach(), model.score(TRIPLES), atol=1e-6)
        with torch.no_grad():
            assert not model(TRIPLES).requires_grad
        nested = model(TRIPLES.int().view(1, 5, 3))
        assert nested.shape == (1, 5)
        assert torch.equal(nested[0], scores)
        assert model(TRIPLES[:0]).shape == (0,)


def test_a_submodule_learns_with_the_rest() -> None:
    class Both(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.graph, self.bias = make("srt"), nn.Linear(1, 1)

        def forward(self, triples: torch.Tensor) -> torch.Tensor:
            scores = self.graph(triples)
            return self.bias(scores.unsqueeze(1)).squeeze(1)

    torch.manual_seed(0)
    model = Both()
    assert "graph.core.locations" in model.state_dict()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    labels, losses = torch.tensor([1.0, 0.0, 1.0, 0.0, 1.0]), []
    for _ in range(60):
        optimizer.zero_grad()
        loss = nn.functional.binary_cross_entropy_with_logits(model(TRIPLES), labels)
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
    assert losses[-1] < 0.3 * losses[0]
    copied = copy.deepcopy(model).eval()
    assert torch.equal(copied(TRIPLES), model.eval()(TRIPLES))


def test_gates_are_drawn_anew_and_their_penalty_is_at_hand() -> None:
    model = make("srt")
    torch.manual_seed(0)
    assert not torch.equal(model(TRIPLES), model(TRIPLES))
    expected, _ = model.core.penalty()
    expected.backward()
    assert model.core.locations.grad.abs().sum() > 0


def test_what_was_changed_in_evaluation_is_seen() -> None:
    model = make("srt").eval()
    before = model.score(TRIPLES)
    with torch.no_grad():
        model.core.values.mul_(2.0)
    assert torch.allclose(model.score(TRIPLES), 2 * before)
    assert model.double().score(TRIPLES).dtype == torch.float64


@pytest.mark.parametrize("name", ["complex", "drt", "srt"])
def test_a_second_derivative_is_refused_and_never_wrong(name: str) -> None:
    model = make(name)
    (slope,) = torch.autograd.grad(model(TRIPLES).sum(), [model.E], create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        slope.sum().backward()


@pytest.mark.parametrize(
    ("triples", "words"),
    [
        ([[0, 0, 0]], "a tensor of ids, not a list"),
        (torch.zeros(2, 3), "float32 of the shape (2, 3)"),
        (torch.zeros(2, 2, dtype=torch.long), "the shape (2, 2)"),
        (torch.tensor([[0, 3, 0]]), "6 entities and 3 relations"),
        (torch.tensor([[0, 0, 6]]), "6 entities and 3 relations"),
        (torch.tensor([[-1, 0, 0]]), "6 entities and 3 relations"),
    ],
)
def test_what_are_no_triples_of_ids_is_refused(triples: torch.Tensor, words: str) -> None:
    with pytest.raises(ReltuckerError) as caught:
        make("complex")(triples)
    assert words in str(caught.value)
