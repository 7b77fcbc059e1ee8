"""Cores side by side: scores are weighted sums, and everything else is that of the parts."""

from itertools import combinations_with_replacement
from typing import Any

import pytest
import torch
from torch import Tensor

from reltucker.errors import RecipeError
from reltucker.model import CORES, RelationalTucker, sizes_of, weighted_sum, without_normalisation
from reltucker.model.normalisation import QueryNorm
from reltucker.training import Recipe, build_model
from tests.conftest import build_core

ENTITIES, RELATIONS = 7, 3
NAMES = sorted(CORES)


def make(
    name: str, seed: int, *, reciprocal: bool = False, batch_norm: bool = False, dim: int = 4
) -> RelationalTucker:
    core = build_core(name, dim, RELATIONS)
    model = RelationalTucker(
        ENTITIES, RELATIONS, core, reciprocal=reciprocal, batch_norm=batch_norm
    )
    generator = torch.Generator().manual_seed(seed)
    model.reset(generator)
    if model.norm is not None:
        with torch.no_grad():
            for norm in (model.norm.before, model.norm.after):
                for part in (norm.weight, norm.bias, norm.running_mean):
                    part.copy_(torch.randn(dim, generator=generator))
                norm.running_var.copy_(torch.rand(dim, generator=generator) + 0.1)
    return model.eval().requires_grad_(False)


def sparse_srt(seed: int) -> RelationalTucker:
    """SRT whose core is held by a few of its entries."""
    model = make("srt", seed, dim=6)
    entries = torch.tensor([0, 9, 40])
    weights = torch.tensor([0.5, -1.0, 2.0])
    model.core = CORES["srt"].build(6, RELATIONS, RELATIONS, sparse_below=0.5)
    model.core.load_serving_state({"entries": entries, "weights": weights})
    return model.eval()


def all_scores(model: RelationalTucker) -> dict[str, Tensor]:
    """The scores of all triples, asked for from every side."""
    first = torch.arange(ENTITIES).repeat(RELATIONS)
    relation = torch.arange(RELATIONS).repeat_interleave(ENTITIES)
    pairs = torch.cartesian_prod(torch.arange(ENTITIES), torch.arange(ENTITIES)).T
    triples = torch.cartesian_prod(
        torch.arange(ENTITIES), torch.arange(RELATIONS), torch.arange(ENTITIES)
    )
    asked = {"object": (first, relation), "subject": (first, relation), "relation": tuple(pairs)}
    found: dict[str, Tensor] = {"triples": model.score(triples)}
    for direction, question in asked.items():
        queries = model.queries(direction, *question)
        found[direction] = queries @ model.candidates(direction).T
    return found


def check_sum(models: list[RelationalTucker], weights: list[float]) -> RelationalTucker:
    merged = weighted_sum(models, weights)
    parts = [all_scores(model) for model in models]
    for direction, scores in all_scores(merged).items():
        expected = sum(w * part[direction] for w, part in zip(weights, parts, strict=True))
        assert isinstance(expected, Tensor)
        assert expected.abs().max() > 1e-3
        assert torch.allclose(scores, expected, atol=1e-5), direction
    return merged


@pytest.mark.parametrize("names", list(combinations_with_replacement(NAMES, 2)), ids="-".join)
def test_scores_are_weighted_sums_for_all_pairs_of_cores(names: tuple[str, str]) -> None:
    models = [make(name, seed, dim=4 + 2 * seed) for seed, name in enumerate(names)]
    check_sum(models, [0.3, 1.7])


@pytest.mark.parametrize("norms", [(True, True), (True, False), (False, True)])
@pytest.mark.parametrize("names", [("complex", "drt"), ("srt", "rescal"), ("drt", "merged")])
def test_batch_normalisation_stands_side_by_side(
    names: tuple[str, str], norms: tuple[bool, bool]
) -> None:
    models = [
        make(name, seed, reciprocal=True, batch_norm=norm)
        for seed, (name, norm) in enumerate(zip(names, norms, strict=True))
    ]
    merged = check_sum([*models, make("cp", 5, reciprocal=True)], [0.25, 3.0, 0.5])
    plain = without_normalisation(merged)
    assert plain.norm is None
    for direction, scores in all_scores(merged).items():
        if direction != "relation":  # whose scores lack a term that is the same for all relations
            assert torch.allclose(all_scores(plain)[direction], scores, atol=1e-4)


def test_a_part_without_normalisation_stays_as_it_is_without_it() -> None:
    models = [make("complex", 0, reciprocal=True), make("drt", 1, reciprocal=True, batch_norm=True)]
    plain = without_normalisation(weighted_sum(models, [1.0, 1.0]))
    assert (plain.core.entity_dim, plain.core.relation_dim) == (4 + 5, 4 + 4)
    assert plain.core.side_by_side()[0] is models[0].core


def test_the_identity_changes_nothing() -> None:
    norm = QueryNorm.identity(50).eval()
    rows = torch.randn(20, 50, generator=torch.Generator().manual_seed(0))
    assert torch.equal(norm.given(rows), rows)
    assert torch.equal(norm.query(rows), rows)


def test_a_core_that_is_held_sparse_can_be_a_part() -> None:
    srt = sparse_srt(3)
    assert srt.core.held.is_sparse
    merged = check_sum([srt, make("complex", 1)], [2.0, 0.5])
    assert merged.core.free_entries() == 3


def test_three_parts_of_which_one_is_a_sum_itself() -> None:
    inner = weighted_sum([make("drt", 0), make("hole", 1)], [0.5, 2.0])
    merged = check_sum([make("distmult", 2), inner], [1.0, 0.7])
    assert [core.name for core in merged.core.side_by_side()] == ["distmult", "drt", "hole"]


def test_the_core_is_block_diagonal() -> None:
    models = [make("complex", 0), make("drt", 1), sparse_srt(2)]
    core = weighted_sum(models, [1.0, 1.0, 1.0]).core
    tensor = core.tensor()
    assert tensor.shape == (14, 14, 4 + 3 + 3)
    expected = torch.zeros_like(tensor)
    i = l = 0
    for model in models:
        d, r = model.core.entity_dim, model.core.relation_dim
        expected[i : i + d, i : i + d, l : l + r] = model.core.tensor()
        i, l = i + d, l + r
    assert torch.equal(tensor, expected)
    entries = core.explicit()
    written = torch.zeros_like(tensor)
    written[entries["i"], entries["j"], entries["l"]] = entries["value"]
    assert torch.equal(written, expected)
    assert torch.equal(core.nonzero_by_slice(), torch.count_nonzero(expected, dim=(0, 1)))
    relations = torch.randn(5, 10, generator=torch.Generator().manual_seed(0))
    matrices = torch.einsum("ijl,ul->uij", tensor, relations)
    assert torch.allclose(core.mixing_matrices(relations), matrices, atol=1e-6)


@pytest.mark.parametrize("view", ["fixed", "constrained"])
def test_sizes_are_the_sums_of_those_of_the_parts(view: Any) -> None:
    models = [make("complex", 0), make("drt", 1), make("rescal", 2), sparse_srt(3)]
    merged = sizes_of(weighted_sum(models, [1.0, 2.0, 3.0, 4.0]), view)
    parts = [sizes_of(model, view) for model in models]
    for key in ("nnfp_core", "nnfp_relations", "nnfp_entities", "effective_parameters"):
        assert getattr(merged, key) == sum(getattr(part, key) for part in parts), key


def test_what_is_served_is_loaded_again() -> None:
    models = [make("drt", 0), sparse_srt(1), make("complex", 2)]
    merged = weighted_sum(models, [1.0, 0.5, 0.25])
    again = RelationalTucker(
        ENTITIES,
        RELATIONS,
        CORES["merged"].build(
            14,
            10,
            RELATIONS,
            parts=[
                {"name": "drt", "entity_dim": 4, "relation_dim": 3},
                {"name": "srt", "entity_dim": 6, "relation_dim": 3, "options": {"l0_weight": 0.2}},
                {"name": "complex", "entity_dim": 4, "relation_dim": 4},
            ],
        ),
    )
    again.load_serving_state(merged.serving_state())
    for direction, scores in all_scores(again.eval()).items():
        assert torch.allclose(scores, all_scores(merged)[direction], atol=1e-6)


def test_squares_are_those_of_the_parts() -> None:
    core = weighted_sum([make("complex", 0), make("drt", 1)], [1.0, 1.0]).core
    entities = torch.tensor([[3.0, 1.0, 4.0, 2.0, 1.0, 2.0, 3.0, 4.0]])
    assert core.squares(entities).tolist() == [[25.0, 5.0, 1.0, 4.0, 9.0, 16.0]]
    assert core.squares(entities[:, :7]).tolist() == [[25.0, 5.0, 1.0, 4.0, 9.0]]
    # Where the size does not tell entities from relations, every coordinate is one of its own.
    cores = [
        make(name, 0, dim=dim).core for name, dim in (("cp", 4), ("complex", 4), ("rescal", 2))
    ]
    same = CORES["merged"](cores)
    assert same.entity_dim == same.relation_dim == 10
    assert same.squares(torch.full((1, 10), 3.0)).tolist() == [[9.0] * 10]


PART = {"name": "drt", "entity_dim": 4, "relation_dim": 2}


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        ([], r"core\.parts is missing.*reltucker merge"),
        ([{**PART, "name": "dirt"}], r"core\.parts: there is no model 'dirt'"),
        ([{**PART, "entity_dim": 0}], r"core\.parts\.0\.entity_dim = 0"),
        ([{**PART, "size": 3}], r"core: there is no setting 'parts\.0\.size'"),
        ([{**PART, "options": {"scalar_share": 1}}], r"core\.parts: scalar_share of drt"),
    ],
)
def test_parts_that_cannot_be_are_refused(parts: list[Any], message: str) -> None:
    with pytest.raises(RecipeError, match=message):
        Recipe().with_values({"model.name": "merged", "core.parts": parts})


def test_sizes_that_are_not_those_of_the_parts_are_refused() -> None:
    values = {"model.name": "merged", "core.parts": [PART, PART]}
    assert (
        build_model(Recipe().with_values({**values, "model.entity_dim": 8}), 5, 2).R.shape[1] == 4
    )
    for sizes in ({"model.entity_dim": 9}, {"model.entity_dim": 8, "model.relation_dim": 5}):
        with pytest.raises(RecipeError, match=r"core\.parts add up to 8 and 4"):
            build_model(Recipe().with_values({**values, **sizes}), 5, 2)


def test_two_parts_that_retire_entries_are_not_trained_as_one() -> None:
    options = {"warm_up_epochs": 0, "sparse_below": 1.0, "retire_below": 0.5}
    part = {"name": "srt", "entity_dim": 4, "relation_dim": 2, "options": options}
    for count in (1, 2):
        core = CORES["merged"].build(4 * count, None, 3, parts=[part] * count)
        with torch.no_grad():
            for each in core.side_by_side():
                each.locations.fill_(-9.0)
                each.locations[:3] = 9.0
        if count == 1:
            kept = core.begin_epoch(1, 10)
            assert kept is not None
            assert kept.tolist() == [0, 1, 2]
        else:
            with pytest.raises(RecipeError, match="train them apart"):
                core.begin_epoch(1, 10)
