"""The hard-concrete gates: statistics against closed forms, gradients against differences."""

import math

import pytest
import torch

from reltucker.kernels import sparse_mixing_backward, sparse_mixing_forward
from reltucker.model import CORES, RelationalTucker, sizes_of
from reltucker.model.cores import GatedCore
from reltucker.model.hard_concrete import HardConcrete

PAPER = HardConcrete()
OTHER = HardConcrete(temperature=0.5, low=-0.2, high=1.3)
SAMPLES = 400_000


def cumulative(d: HardConcrete, location: float, x: float) -> float:
    """P(z <= x) = sigmoid(temperature logit((x - low) / (high - low)) - location), 0 <= x < 1."""
    s = (x - d.low) / (d.high - d.low)
    return 1 / (1 + math.exp(location - d.temperature * math.log(s / (1 - s))))


def draw(d: HardConcrete, location: float, dtype: torch.dtype, key: int = 3) -> torch.Tensor:
    locations = torch.full((SAMPLES,), location, dtype=dtype)
    return d.gated(torch.ones_like(locations), locations, key)[0]


@pytest.mark.parametrize("location", [-3.0, -0.5, 0.0, 1.0, 3.0])
@pytest.mark.parametrize(
    ("d", "dtype"),
    [(PAPER, torch.float32), (PAPER, torch.float64), (OTHER, torch.float32)],
    ids=["loops", "torch", "another temperature"],
)
def test_gates_have_the_distribution_of_the_closed_form(
    location: float, d: HardConcrete, dtype: torch.dtype
) -> None:
    gates = draw(d, location, dtype)

    def check(share: float, expected: float) -> None:
        assert abs(share - expected) < 5 * math.sqrt(expected * (1 - expected) / SAMPLES) + 1e-6

    off = cumulative(d, location, 0.0)
    check((gates == 0).double().mean().item(), off)
    check((gates < 1).double().mean().item(), cumulative(d, location, 1.0))
    for x in (0.1, 0.5, 0.9):
        check((gates <= x).double().mean().item(), cumulative(d, location, x))
    assert d.active_probability(torch.tensor(location)).item() == pytest.approx(1 - off, abs=1e-6)
    # E z is the integral of P(z > x) over [0, 1].
    grid = torch.linspace(0, 1, 2001)[:-1] + 1 / 4000
    mean = sum(1 - cumulative(d, location, x) for x in grid.tolist()) / 2000
    deviation = gates.double().std().item()
    assert abs(gates.double().mean().item() - mean) < 5 * deviation / math.sqrt(SAMPLES) + 1e-4


def test_the_papers_penalty() -> None:
    a = torch.randn(50, dtype=torch.double)
    expected = torch.sigmoid(a - 2 / 3 * math.log(0.1 / 1.1))
    assert torch.allclose(PAPER.active_probability(a), expected)
    assert torch.allclose(PAPER.gates(a), (torch.sigmoid(a) * 1.2 - 0.1).clamp(0, 1))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_gradients_equal_finite_differences(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(0)
    values, locations, gradient = torch.randn(3, 500, generator=generator, dtype=dtype)
    key, penalty, step = 9, 0.7, 1e-3

    def loss(v: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
        weights, _ = PAPER.gated(v, a, key)
        per_entry = weights.double() * gradient.double()
        return per_entry + penalty * PAPER.active_probability(a.double())

    inputs = values.clone().requires_grad_(), locations.clone().requires_grad_()
    for_values, for_locations = torch.autograd.grad(
        PAPER.gated(*inputs, key), inputs, [gradient, torch.tensor(penalty, dtype=dtype)]
    )
    ahead, behind = loss(values, locations + step), loss(values, locations - step)
    difference = (ahead - behind) / (2 * step)
    # A gate that reaches 0 or 1 within the step has a kink there.
    gates = [PAPER.gated(torch.ones_like(values), locations + s, key)[0] for s in (-step, step)]
    smooth = ((gates[0] > 0) == (gates[1] > 0)) & ((gates[0] < 1) == (gates[1] < 1))
    assert smooth.float().mean() > 0.95
    assert torch.allclose(
        for_locations.double()[smooth],
        difference[smooth],
        atol=2e-3 if dtype == torch.float32 else 1e-5,
    )
    ones, _ = PAPER.gated(torch.ones_like(values), locations, key)
    assert torch.allclose(for_values, gradient * ones, atol=1e-6)


def test_the_expected_norm_is_the_sum_of_probabilities() -> None:
    locations = torch.randn(10_000)
    _, expected = PAPER.gated(torch.ones_like(locations), locations, 1)
    assert expected.item() == pytest.approx(
        PAPER.active_probability(locations).sum().item(), rel=1e-5
    )


@pytest.mark.parametrize("location", [-200.0, 200.0])
def test_locations_far_out_give_whole_gates_and_no_nan(location: float) -> None:
    locations = torch.full((1000,), location)
    inputs = torch.ones_like(locations).requires_grad_(), locations.requires_grad_()
    weights, expected = PAPER.gated(*inputs, 1)
    assert set(weights.tolist()) == {float(location > 0)}
    assert expected.item() == pytest.approx(1000 if location > 0 else 0, abs=1e-3)
    for gradient in torch.autograd.grad(weights.sum() + expected, inputs):
        assert torch.isfinite(gradient).all()


def test_the_same_key_gives_the_same_gates() -> None:
    first = draw(PAPER, 0.0, torch.float32, key=1)
    assert torch.equal(first, draw(PAPER, 0.0, torch.float32, key=1))
    other = draw(PAPER, 0.0, torch.float32, key=2)
    centred = (first - first.mean()) * (other - other.mean())
    assert abs(centred.mean() / first.var()) < 5 / math.sqrt(SAMPLES)


def make(seed: int = 0, **options: float) -> RelationalTucker:
    core = CORES["srt"].build(6, 3, 5, warm_up_epochs=2, **options)
    model = RelationalTucker(9, 5, core)
    model.reset(torch.Generator().manual_seed(seed))
    return model


def close_most(core: GatedCore, kept: int) -> None:
    """Shut all gates for good but the first of a random order."""
    with torch.no_grad():
        order = torch.randperm(core.held.size, generator=torch.Generator().manual_seed(4))
        core.locations[order[kept:]] = -20.0


def test_entries_are_retired_after_the_warm_up_and_scores_stay() -> None:
    model = make(sparse_below=0.5)
    core = model.core
    assert isinstance(core, GatedCore)
    close_most(core, 20)
    triples = torch.cartesian_prod(torch.arange(9), torch.arange(5), torch.arange(9))
    before = model.eval().score(triples)
    tensor = core.tensor()
    assert core.begin_epoch(2, steps=10) is None
    kept = core.begin_epoch(3, steps=10)
    assert kept is not None
    assert len(kept) == len(core.values) == 20
    assert core.held.is_sparse
    assert torch.equal(core.tensor(), tensor)
    assert torch.allclose(model.eval().score(triples), before, atol=1e-5)
    assert core.nonzero_entries() == sizes_of(model).nnfp_core == int(torch.count_nonzero(tensor))


def test_a_core_above_the_sparse_share_stays_dense() -> None:
    model = make(sparse_below=0.1)
    close_most(model.core, 20)
    assert model.core.begin_epoch(3, steps=10) is None
    assert not model.core.held.is_sparse


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sparse_products_and_their_gradients_equal_the_dense_ones(dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(2)
    relations = torch.randn(5, 3, generator=generator, dtype=dtype)
    weights = torch.randn(20, generator=generator, dtype=dtype)
    entries = torch.randperm(3 * 36, generator=generator)[:20]
    slices, places = entries // 36, entries % 36
    upstream = torch.randn(5, 36, generator=generator, dtype=dtype)

    dense_relations = relations.clone().requires_grad_()
    dense_weights = weights.clone().requires_grad_()
    core = torch.zeros(3 * 36, dtype=dtype).index_put((entries,), dense_weights).view(3, 36)
    expected = dense_relations @ core
    expected.backward(upstream)
    got = sparse_mixing_forward(relations, weights, slices, places, 36)
    gradients = sparse_mixing_backward(relations, weights, slices, places, upstream)
    assert torch.allclose(got, expected, atol=1e-5)
    assert torch.allclose(gradients[0], dense_relations.grad, atol=1e-5)
    assert torch.allclose(gradients[1], dense_weights.grad, atol=1e-5)


def test_the_penalty_has_its_weight_after_the_warm_up_only() -> None:
    core = make(l0_weight=0.5).core.train()
    for epoch, weight in ((1, 0.0), (2, 0.0), (3, 0.05)):
        core.begin_epoch(epoch, steps=10)
        core.mixing(torch.ones(1, 3))
        penalty = core.penalty()
        assert penalty is not None
        assert penalty[1] == pytest.approx(weight)


def test_the_serving_state_holds_active_entries_only() -> None:
    model = make(sparse_below=0.5)
    close_most(model.core, 12)
    state = model.serving_state()
    assert set(state) == {"E", "R", "core.entries", "core.weights"}
    assert len(state["core.weights"]) <= 12
    other = make(seed=1, sparse_below=0.5)
    other.load_serving_state(state)
    triples = torch.cartesian_prod(torch.arange(9), torch.arange(5), torch.arange(9))
    assert torch.allclose(other.eval().score(triples), model.eval().score(triples), atol=1e-6)
    assert sizes_of(other) == sizes_of(model)


@pytest.mark.parametrize("entries", [[200], [-1]])
def test_entries_outside_of_the_core_are_refused(entries: list[int]) -> None:
    model = make()
    state = model.serving_state()
    state["core.entries"], state["core.weights"] = torch.tensor(entries), torch.ones(1)
    with pytest.raises(ValueError, match="outside"):
        model.load_serving_state(state)
