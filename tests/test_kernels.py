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
)
def test_sampled_scores_and_their_gradients(
    seed: int, rows: int, dim: int, width: int, rate: float
) -> None:
    generator = torch.Generator().manual_seed(seed)
    entities = torch.randn(12, dim, generator=generator, requires_grad=True)
    queries = torch.randn(rows, dim, generator=generator, requires_grad=True)
    candidates = torch.randint(12, (rows, width), generator=generator)
    weights = torch.randn(rows, width, generator=generator)
    expected = torch.einsum("bd,bnd->bn", queries, entities[candidates])
    (expected * weights).sum().backward()

    scores = kernels.sampled_scores(queries.detach(), entities.detach(), candidates)
    assert torch.allclose(scores, expected, atol=1e-5)
    for_queries = kernels.weighted_candidates(weights, entities.detach(), candidates)
    assert torch.allclose(for_queries, queries.grad, atol=1e-5)
    out = torch.full_like(entities, 9.0)
    sources = torch.arange(rows).repeat_interleave(width)
    kernels.scatter_rows(
        candidates.flatten(),
        weights.flatten(),
        sources,
        queries.detach(),
        Dropout(rate, seed),
        out.detach(),
    )
    mask = kernels.apply_dropout(torch.ones_like(out), Dropout(rate, seed))
    assert torch.allclose(out, entities.grad * mask, atol=1e-4)


def test_double_precision_takes_the_torch_path_with_the_same_result() -> None:
    queries, entities = torch.randn(5, 4), torch.randn(9, 4)
    candidates = torch.randint(9, (5, 3))
    single = kernels.sampled_scores(queries, entities, candidates)
    double = kernels.sampled_scores(queries.double(), entities.double(), candidates)
    assert double.dtype == torch.float64
    assert torch.allclose(single.double(), double, atol=1e-5)


def test_draw_distinct_is_without_replacement_and_uniform() -> None:
    drawn = kernels.draw_distinct(20_000, 4, 10, key=5)
    ordered = drawn.sort(dim=1).values
    assert (ordered[:, 1:] > ordered[:, :-1]).all()
    assert drawn.min() == 0
    assert drawn.max() == 9
    counts = np.bincount(drawn.numpy().ravel(), minlength=10)
    expected = drawn.numel() / 10
    chi_squared = ((counts - expected) ** 2 / expected).sum()
    assert chi_squared < 33.7  # 9 degrees of freedom, p = 1e-4
    pairs = np.bincount((ordered[:, 0] * 10 + ordered[:, 1]).numpy(), minlength=100)
    assert np.count_nonzero(pairs) == 28  # a minimum of four distinct numbers below 10: 0..6, pairs


def test_draw_distinct_of_a_whole_population_is_a_permutation() -> None:
    drawn = kernels.draw_distinct(50, 6, 6, key=1)
    assert torch.equal(drawn.sort(dim=1).values, torch.arange(6).expand(50, 6))


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
