import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker import kernels
from reltucker.kernels import Dropout


@pytest.mark.parametrize("rate", [0.1, 0.5, 0.9])
def test_dropout_keeps_the_right_share_and_scale(rate: float) -> None:
    x = torch.ones(1000, 100)
    out = kernels.apply_dropout(x, Dropout(rate, 7))
    kept = out != 0
    share = kept.float().mean().item()
    # Five standard deviations of a binomial share over 100,000 draws.
    assert abs(share - (1 - rate)) < 5 * math.sqrt(rate * (1 - rate) / x.numel())
    assert torch.allclose(out[kept], torch.tensor(1 / (1 - rate)))


def test_dropout_is_a_function_of_its_key() -> None:
    x = torch.ones(50_000)
    first = kernels.apply_dropout(x, Dropout(0.5, 3 << 40))
    assert torch.equal(first, kernels.apply_dropout(x, Dropout(0.5, 3 << 40)))
    for other in (3 << 40 | 1, 5 << 40, 0, 1, 2**62 - 1, *range(100, 130)):
        agree = (first == kernels.apply_dropout(x, Dropout(0.5, other))).float().mean().item()
        assert abs(agree - 0.5) < 5 * 0.5 / math.sqrt(len(x))


def test_dropout_masks_are_not_correlated_along_positions() -> None:
    kept = (kernels.apply_dropout(torch.ones(200_000), Dropout(0.5, 11)) != 0).double() - 0.5
    for lag in (1, 2, 16, 100, 128, 4096):
        correlation = (kept[lag:] * kept[:-lag]).mean().item() * 4
        assert abs(correlation) < 5 / math.sqrt(len(kept))


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.integers(1, 17),
    st.integers(1, 6),
    st.floats(0, 0.9),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_sampled_softmax_and_its_gradients(
    seed: int, size: int, dim: int, width: int, rate: float, dtype: torch.dtype
) -> None:
    """Both the compiled loops (single precision) and the torch operations against autograd."""
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randn(12, dim, generator=generator, dtype=dtype, requires_grad=True)
    queries = torch.randn(size, dim, generator=generator, dtype=dtype, requires_grad=True)
    rows = torch.randn(size, dim, generator=generator, dtype=dtype)
    given = torch.randint(12, (size,), generator=generator)
    candidates = torch.randint(12, (size, width), generator=generator)
    scores = torch.einsum("bd,bnd->bn", queries, entities[candidates])
    first = torch.zeros(size, dtype=torch.long)
    expected = torch.nn.functional.cross_entropy(scores, first, reduction="none")
    (expected.sum() + (entities[given] * rows).sum()).backward()

    losses, weights, query_gradient = kernels.sampled_softmax(
        queries.detach(), entities.detach(), candidates
    )
    assert torch.allclose(losses, expected, atol=1e-5)
    assert torch.allclose(query_gradient, queries.grad, atol=1e-5)
    dropout = Dropout(rate, seed)
    gradient = kernels.scatter_gradient(
        candidates,
        weights,
        queries.detach(),
        given,
        rows,
        dropout,
        torch.full_like(entities, 9.0).detach(),
    )
    mask = kernels.apply_dropout(torch.ones_like(gradient), dropout)
    assert torch.allclose(gradient, entities.grad * mask, atol=1e-4)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_a_score_that_is_not_finite_reaches_the_loss(value: float) -> None:
    entities = torch.ones(5, 4)
    entities[3, 1] = value
    losses, _, _ = kernels.sampled_softmax(
        torch.full((1, 4), 10.0), entities, torch.tensor([[0, 1, 3]])
    )
    assert not torch.isfinite(losses).all()


def test_candidates_are_without_replacement_and_uniform() -> None:
    true = torch.arange(10).repeat(2000)
    drawn = kernels.draw_candidates(true, 4, 10, key=5)
    assert torch.equal(drawn[:, 0], true)
    ordered = drawn.sort(dim=1).values
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    assert (drawn.min(), drawn.max()) == (0, 9)
    # Chi-squared over all (true, other) pairs: 89 degrees of freedom, p = 1e-4.
    pairs = np.bincount((drawn[:, :1] * 10 + drawn[:, 1:]).numpy().ravel(), minlength=100)
    counts = pairs.reshape(10, 10)[~np.eye(10, dtype=bool)]
    expected = 4 * 2000 / 9
    assert ((counts - expected) ** 2 / expected).sum() < 144.6


def test_all_others_are_drawn_where_the_population_is_that_small() -> None:
    drawn = kernels.draw_candidates(torch.arange(6), 5, 6, key=1)
    assert torch.equal(drawn.sort(dim=1).values, torch.arange(6).expand(6, 6))


def test_candidates_depend_on_the_key() -> None:
    true = torch.zeros(100, dtype=torch.long)
    first = kernels.draw_candidates(true, 3, 1000, key=1)
    assert torch.equal(first, kernels.draw_candidates(true, 3, 1000, key=1))
    assert not torch.equal(first, kernels.draw_candidates(true, 3, 1000, key=2))


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 2**32), st.integers(0, 9), st.booleans())
def test_rank_kernel_equals_its_torch_reference(seed: int, seen: int, broken: bool) -> None:
    rng = np.random.default_rng(seed)
    # Few distinct values, so that ties abound.
    scores = torch.from_numpy(rng.integers(0, 4, size=(3, 9)).astype(np.float32))
    if broken:
        scores[1, 4] = float(rng.choice([np.nan, np.inf, -np.inf]))
    counts = rng.integers(0, 6, size=3)
    answers = np.concatenate([rng.choice(9, size=n, replace=False) for n in counts])
    arguments = (
        scores,
        torch.from_numpy(rng.integers(0, 3, size=7)),
        torch.from_numpy(rng.integers(0, 9, size=7)),
        seen,
        torch.from_numpy(np.cumsum(counts) - counts),
        torch.from_numpy(counts),
        torch.from_numpy(answers.astype(np.int32)),
        torch.from_numpy(rng.integers(0, 3, size=len(answers)).astype(np.uint8)),
    )
    ranks = kernels.rank_by_counting(*arguments)
    assert torch.equal(torch.isnan(ranks).any(dim=1), (arguments[1] == 1) & broken)
    assert torch.equal(
        torch.nan_to_num(ranks), torch.nan_to_num(kernels.rank_reference(*arguments))
    )
