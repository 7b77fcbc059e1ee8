import pytest
import torch

from reltucker.model import CORES, RelationalTucker
from tests.conftest import build_core


@pytest.mark.parametrize("reciprocal", [False, True])
@pytest.mark.parametrize("name", ["complex", "drt"])
def test_plausibility_is_the_mean_of_both_ways_to_ask(name: str, reciprocal: bool) -> None:
    model = RelationalTucker(6, 2, build_core(name, 4, 2), reciprocal=reciprocal).double()
    model.reset(torch.Generator().manual_seed(0), 1.0)
    triples = torch.cartesian_prod(torch.arange(6), torch.arange(2), torch.arange(6))
    i, k, j = triples.T
    matrices = model.core.mixing_matrices(model.R)
    forth = torch.einsum("na,nab,nb->n", model.E[i], matrices[k], model.E[j])
    back = (
        torch.einsum("na,nab,nb->n", model.E[j], matrices[k + 2], model.E[i])
        if reciprocal
        else forth
    )
    assert torch.allclose(model.plausibility(triples), (forth + back) / 2)
    assert torch.allclose(forth, back) is not reciprocal


@pytest.mark.parametrize("direction", ["object", "subject"])
@pytest.mark.parametrize("kind", ["plain", "reciprocal", "normalised"])
@pytest.mark.parametrize("name", sorted(CORES))
def test_one_product_gives_the_plausibility(name: str, kind: str, direction: str) -> None:
    generator = torch.Generator().manual_seed(0)
    options = {"reciprocal": kind != "plain", "batch_norm": kind == "normalised"}
    model = RelationalTucker(6, 3, build_core(name, 4, 3), **options)
    model.reset(generator)
    for values in model.norm.state_dict().values() if model.norm else ():
        if values.dtype.is_floating_point:
            values.copy_(torch.rand(values.shape, generator=generator) + 0.5)
    model = model.double().eval()
    i, k, j = torch.randint(6, (3, 50), generator=generator)
    k %= 3
    given, other = (i, j) if direction == "object" else (j, i)
    queries, shift = model.plausibility_queries(direction, model.E[given], k)
    expected = model.plausibility(torch.stack([i, k, j], dim=1))
    assert torch.allclose((queries * model.E[other]).sum(dim=1) + shift, expected)
