import math

import numba
import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker import kernels
from reltucker.kernels import Dropout, negatives, products
from reltucker.kernels.compiled import mixed_key


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
    first = torch.zeros(size, dtype=torch.long)
    shares = torch.rand(size, generator=generator, dtype=dtype)
    dropout = Dropout(rate, seed)
    mask = kernels.apply_dropout(torch.ones_like(entities.detach()), dropout)
    masked = entities * mask
    scores = torch.einsum("bd,bnd->bn", queries, masked[candidates])
    expected = torch.nn.functional.cross_entropy(scores, first, reduction="none") * shares
    (expected.sum() + (masked[given] * rows).sum()).backward()

    losses, weights, query_gradient = kernels.sampled_softmax(
        queries.detach(), entities.detach(), candidates, shares, dropout
    )
    assert torch.allclose(losses, expected, atol=1e-4)
    assert torch.allclose(query_gradient, queries.grad, atol=1e-4)
    added = (candidates, weights, queries.detach(), given, rows)
    wanted = entities.grad
    out = torch.full_like(wanted, 9.0)
    if dtype == torch.float64:
        assert torch.allclose(kernels.scatter_gradient(*added, dropout, out), wanted, atol=1e-4)
        return
    entries = kernels.Entries.of(*added, len(out), dropout, None)
    assert torch.allclose(entries.dense(out), wanted, atol=1e-3, rtol=1e-3)
    # A step by entries is the step with the written gradient.
    matrix, sums = entities.detach().clone(), torch.ones_like(wanted)
    entries.adagrad(matrix, sums, 0.1, 1e-10)
    assert torch.allclose(sums, 1 + out**2, rtol=1e-4)
    step = 0.1 * out / (1 + out**2).sqrt()
    assert torch.allclose(matrix, entities.detach() - step, atol=1e-4)


@settings(max_examples=25, deadline=None)
@given(
    st.integers(0, 2**32),
    st.integers(1, 9),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_softmax_over_shared_candidates(
    seed: int, size: int, width: int, dtype: torch.dtype
) -> None:
    generator = torch.Generator().manual_seed(seed)
    own = (9 * torch.randn(size, generator=generator, dtype=dtype)).requires_grad_()
    scores = (9 * torch.randn(size, width, generator=generator, dtype=dtype)).requires_grad_()
    weights = torch.rand(size, generator=generator, dtype=dtype)
    columns = torch.randint(-1, width, (size,), generator=generator)
    left_out = columns.unsqueeze(1) == torch.arange(width)
    all_scores = torch.cat([own.unsqueeze(1), scores.masked_fill(left_out, -torch.inf)], dim=1)
    expected = -torch.log_softmax(all_scores, dim=1)[:, 0] * weights
    expected.sum().backward()

    found = [own.detach().clone(), scores.detach().clone()]
    losses = kernels.shared_softmax(found[0], found[1], columns, weights)
    assert torch.allclose(losses, expected, atol=1e-4)
    assert torch.allclose(found[0], own.grad, atol=1e-5)
    assert torch.allclose(found[1], scores.grad, atol=1e-5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), 3e38])
def test_a_score_that_is_not_finite_reaches_the_loss(value: float) -> None:
    entities = torch.ones(5, 4)
    entities[3, 1] = value
    losses, _, _ = kernels.sampled_softmax(
        torch.full((1, 4), 10.0), entities, torch.tensor([[0, 1, 3]]), torch.ones(1), Dropout.none()
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


def test_many_candidates_are_drawn_as_few_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """The hash table finds what a scan finds."""
    true = torch.tensor([3, 500, 999, 1000])
    many = kernels.draw_candidates(true, 300, 1000, key=8)
    for row, own in zip(many[:, 1:].tolist(), true.tolist(), strict=True):
        assert len(set(row)) == 300
        assert own not in row
        assert min(row) >= 0
        assert max(row) <= 999
    monkeypatch.setattr(negatives, "SCAN_BELOW", 300)
    scanned = np.empty((4, 301), dtype=np.int64)
    key = np.uint64(mixed_key(8))
    with np.errstate(over="ignore"):
        negatives._floyd.py_func(true.numpy(), np.arange(4), 1000, key, scanned)
    some = kernels.draw_candidates(true[1:3], 300, 1000, key=8, rows=torch.tensor([1, 2]))
    assert torch.equal(some, many[1:3])  # of some rows, the same as of all
    assert torch.equal(torch.from_numpy(scanned), many)


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
    scores, rows, targets, *rest = arguments
    own = scores[rows, targets]
    for counting in (kernels.count_above, kernels.count_reference):
        for cut in (1, 4, 8):  # counts of parts of the entities are added
            counted = torch.zeros(7, 3, dtype=torch.float64)
            for first, last in ((0, cut), (cut, 9)):
                part = scores[:, first:last].contiguous()
                counted += counting(part, own, first, rows, targets, *rest)
            found = kernels.ranks_of(counted)
            assert torch.equal(torch.nan_to_num(found), torch.nan_to_num(ranks))


def loss_of(
    loss: kernels.Loss, scores: torch.Tensor, targets: kernels.Targets, width: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """The losses of all rows and the gradient for their scores, block by block."""
    count = scores.shape[1]
    blocks = [slice(begin, min(begin + width, count)) for begin in range(0, count, width)]
    losses = torch.zeros(len(scores), dtype=torch.float64)
    sums, known = kernels.RowSums.of(scores), len(blocks) > 1
    if loss == "softmax" and known:
        for block in blocks:
            kernels.add_to_sums(scores[:, block].contiguous(), sums)
    gradient = torch.empty_like(scores)
    for block in blocks:
        part = scores[:, block].clone(memory_format=torch.contiguous_format)
        if loss == "softmax":
            kernels.softmax_gradient(part, block, targets, sums, losses, known)
        else:
            kernels.binary_gradient(part, block, targets, losses)
        gradient[:, block] = part
    if loss == "softmax":
        losses += targets.weights.double() * sums.logarithms()
    return losses, gradient


@settings(max_examples=40, deadline=None)
@given(
    st.integers(0, 2**32),
    st.sampled_from(["softmax", "binary"]),
    st.integers(1, 7),
    st.integers(1, 40),
    st.floats(0, 0.9),
    st.integers(1, 40),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_losses_over_all_entities_and_their_gradients(
    seed: int,
    loss: kernels.Loss,
    size: int,
    count: int,
    smoothing: float,
    width: int,
    dtype: torch.dtype,
) -> None:
    """Loops and torch operations, whole rows and blocks of `width` entities, against autograd."""
    generator = torch.Generator().manual_seed(seed)
    scores = 9 * torch.randn(size, count, generator=generator, dtype=dtype)
    weights = torch.rand(size, generator=generator, dtype=dtype)
    labels = torch.rand(size, count, generator=generator) < 0.2
    labels[torch.arange(size), torch.randint(count, (size,), generator=generator)] = True
    starts = torch.nn.functional.pad(labels.sum(1).cumsum(0), (1, 0))
    answers = torch.nonzero(labels)[:, 1]
    targets = kernels.Targets(starts, answers, weights, smoothing, count)
    losses, gradient = loss_of(loss, scores, targets, width)

    s, y = scores.double().requires_grad_(), labels.double()
    if loss == "softmax":
        y = (1 - smoothing) * y / y.sum(1, keepdim=True) + smoothing / count
        expected = -(y * torch.log_softmax(s, 1)).sum(1) * weights
    else:
        y = (1 - smoothing) * y + smoothing / count
        each = torch.nn.functional.binary_cross_entropy_with_logits(s, y, reduction="none")
        expected = each.sum(1) * weights
    expected.sum().backward()
    tolerance = {"rtol": 1e-5, "atol": 1e-4} if dtype == torch.float32 else {}
    assert torch.allclose(losses, expected, **tolerance)
    assert torch.allclose(gradient.double(), s.grad, **tolerance)


@pytest.mark.parametrize("loss", ["softmax", "binary"])
def test_torch_operations_serve_single_precision_too(
    loss: kernels.Loss, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As on other devices, where there are no loops."""
    scores = torch.randn(2, 9, generator=torch.Generator().manual_seed(0))
    starts, answers = torch.tensor([0, 2, 3]), torch.tensor([1, 7, 4])
    targets = kernels.Targets(starts, answers, torch.tensor([0.3, 0.7]), 0.1, 9)
    results = []
    for _ in range(2):
        results.append(loss_of(loss, scores, targets, 4))
        monkeypatch.setattr("reltucker.kernels.losses.has_loops", lambda _: False)
    for found, expected in zip(*results, strict=True):
        assert torch.allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("loss", ["softmax", "binary"])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("width", [2, 5])
def test_a_score_that_is_not_finite_reaches_the_loss_over_all_entities(
    loss: kernels.Loss, value: float, width: int
) -> None:
    scores = torch.ones(1, 5)
    scores[0, 3] = value
    targets = kernels.Targets(torch.tensor([0, 1]), torch.tensor([0]), torch.ones(1), 0.0, 5)
    losses, _ = loss_of(loss, scores, targets, width)
    assert not torch.isfinite(losses).any()


def test_exponentials_are_those_of_the_library() -> None:
    from reltucker.kernels.losses import exponential

    x = np.linspace(-87, 0, 20_001, dtype=np.float32)
    found = np.array([exponential(value) for value in x])
    assert np.max(np.abs(found / np.exp(x.astype(np.float64)) - 1)) < 1e-5
    assert exponential(np.float32(-1000)) < 1e-37
    assert np.isnan(exponential(np.float32("nan")))


def test_rows_are_numbered_by_first_occurrence_and_marks_are_left_clean() -> None:
    marks = torch.full((9,), -1, dtype=torch.int32)
    for _ in range(2):
        distinct, places = kernels.number_rows(marks, torch.tensor([7, 2, 7, 0, 2]))
        assert distinct.tolist() == [7, 2, 0]
        assert places.tolist() == [0, 1, 0, 2, 1]
    assert (marks == -1).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_step_for_some_rows_is_the_dense_one_with_zeros_elsewhere(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    matrix, sums, gradient = torch.rand(3, 6, 5, generator=generator, dtype=dtype).unbind()
    ids = torch.tensor([4, 1])
    parameter = torch.nn.Parameter(matrix.clone())
    dense = torch.optim.Adagrad([parameter], lr=0.3, eps=1e-10)
    dense.state[parameter]["sum"].copy_(sums)
    parameter.grad = torch.zeros_like(matrix).index_copy_(0, ids, gradient[:2])
    dense.step()
    kernels.adagrad_rows(matrix, sums, ids, gradient[:2], 0.3, 1e-10)
    assert torch.allclose(matrix, parameter.detach(), atol=1e-6)
    assert torch.allclose(sums, dense.state[parameter]["sum"], atol=1e-6)


@pytest.mark.parametrize("threads", [1, 2])
def test_loops_give_the_same_on_one_thread_and_on_several(threads: int) -> None:
    before = numba.get_num_threads()
    numba.set_num_threads(min(threads, before))
    try:
        generator = torch.Generator().manual_seed(1)
        scores = torch.randn(9, 30, generator=generator)
        starts, answers = torch.arange(10), torch.randint(30, (9,), generator=generator)
        targets = kernels.Targets(starts, answers, torch.ones(9), 0.0, 30)
        losses, gradient = loss_of("softmax", scores, targets, 30)
        expected = torch.nn.functional.cross_entropy(scores, answers, reduction="none")
        assert torch.allclose(losses.float(), expected, atol=1e-5)
        assert torch.allclose(gradient.sum(1), torch.zeros(9), atol=1e-5)
    finally:
        numba.set_num_threads(before)


@pytest.mark.parametrize("rate", [0.0, 0.4])
def test_gathered_rows_have_the_mask_of_the_whole_matrix(rate: float) -> None:
    matrix = torch.randn(50, 7, generator=torch.Generator().manual_seed(0))
    ids, dropout = torch.tensor([40, 3, 17]), Dropout(rate, 5)
    whole = kernels.apply_dropout(matrix, dropout)
    assert torch.equal(kernels.gather_dropped(matrix, ids, dropout), whole[ids])
    assert torch.equal(kernels.mask_rows(matrix[ids].clone(), ids, dropout), whole[ids])
    assert torch.equal(kernels.apply_dropout(again := matrix.clone(), dropout, again), whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rows_are_added_one_after_the_other(dtype: torch.dtype) -> None:
    rows = torch.arange(8.0, dtype=dtype).view(4, 2)
    out = kernels.add_rows(torch.ones(3, 2, dtype=dtype), torch.tensor([2, 0, 2, 2]), rows)
    assert out.tolist() == [[3, 4], [1, 1], [11, 14]]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 2**32), st.integers(1, 40), st.integers(1, 90), st.integers(1, 33))
def test_products_with_entities_are_those_of_matrices(
    seed: int, rows: int, count: int, dim: int
) -> None:
    """In blocks of entities, with a last one that is smaller; bfloat16 within its eight bits."""
    generator = torch.Generator().manual_seed(seed)
    q = torch.randn(rows, dim, generator=generator)
    E = torch.randn(count, dim, generator=generator)
    d = torch.randn(rows, count, generator=generator)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(products, "BLOCK", 32)
        patch.setattr(products, "BLOCK_SCORES", 64)
        for precision, bits in (("float32", 20), ("bfloat16", 6)):
            scores = kernels.scores_into(kernels.new_scores(q, E), q, E, precision)
            dE = torch.empty_like(E)
            dq = kernels.gradients_into(dE, d, q, E, precision)
            for found, a, b in ((scores, q, E.t()), (dE, d.t(), q), (dq, d, E)):
                allowed = a.abs() @ b.abs() * 2.0**-bits + 1e-6
                assert ((found - a @ b).abs() <= allowed).all()
            assert scores.dtype == dE.dtype == dq.dtype == torch.float32


def test_rows_of_scores_begin_at_whole_cache_lines_and_loops_see_what_counts_of_them() -> None:
    buffer = torch.full((5 * kernels.padded(21),), torch.nan)
    scores = kernels.score_rows(buffer, 5, 21)
    assert scores.shape == (5, 21)
    assert all(row.data_ptr() % 64 == buffer.data_ptr() % 64 for row in scores)
    scores.copy_(torch.randn(5, 21))
    sums, plain = kernels.RowSums.of(scores), kernels.RowSums.of(scores)
    kernels.add_to_sums(scores, sums)
    kernels.add_to_sums(scores.clone(memory_format=torch.contiguous_format), plain)
    assert torch.equal(sums.total, plain.total)
    assert torch.isfinite(sums.total).all()
    with pytest.raises(ValueError, match="neighbouring"):
        kernels.add_to_sums(scores.t(), kernels.RowSums.of(scores.t()))
