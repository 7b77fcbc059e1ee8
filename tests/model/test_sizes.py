import pytest
import torch

from reltucker.model import CORES, RelationalTucker, Sizes, sizes_of

PUBLISHED = [
    # model, N, K, d_e, d_r, nnfp(G), d_r*, effective parameters
    ("ComplEx FB15K-237", 15_000, 237, 200, 200, 0, 200, 3_047_400),
    ("DRT FB15K-237", 15_000, 237, 100, 237, 2_370_000, 10_237, 3_926_169),
    ("SRT FB15K-237", 15_000, 237, 200, 200, 3_839_637, 16_401, 6_887_037),
    ("ComplEx WN18RR", 40_559, 11, 200, 200, 0, 200, 8_114_000),
    ("DRT WN18RR", 40_559, 11, 200, 11, 440_000, 40_011, 8_551_921),
    ("SRT WN18RR", 40_559, 11, 200, 7, 31_922, 2_909, 8_143_799),
]


@pytest.mark.parametrize("row", PUBLISHED, ids=lambda row: row[0])
def test_published_effective_sizes(row: tuple[str, int, int, int, int, int, int, int]) -> None:
    _, entities, relations, entity_dim, relation_dim, core, relation_size, parameters = row
    sizes = Sizes(core, relations * relation_dim, entities * entity_dim, relations, 1.0)
    assert round(sizes.effective_relation_size) == relation_size
    assert sizes.effective_parameters == parameters


def test_sizes_of_a_model_count_what_is_not_zero() -> None:
    model = RelationalTucker(10, 3, CORES["drt"].build(4, 2, 3))
    model.reset(torch.Generator().manual_seed(0))
    assert sizes_of(model).to_dict() == {
        "nnfp_core": 32,
        "nnfp_relations": 6,
        "nnfp_entities": 40,
        "relations": 3,
        "core_density": 1.0,
        "nnfp_normalisation": 0,
        "effective_relation_size": pytest.approx(38 / 3),
        "effective_parameters": 78,
    }
    with torch.no_grad():
        model.core.slices[0, :5] = 0.0
        model.E[2] = 0.0
    assert sizes_of(model).nnfp_core == 27
    assert sizes_of(model).nnfp_entities == 36


def test_a_fixed_core_has_no_free_parameters() -> None:
    model = RelationalTucker(10, 3, CORES["complex"].build(4, None, 3))
    model.reset(torch.Generator().manual_seed(0))
    sizes = sizes_of(model)
    assert (sizes.nnfp_core, sizes.effective_relation_size) == (0, 4.0)
