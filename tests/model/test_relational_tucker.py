import pytest
import torch

from reltucker.model import RelationalTucker
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
