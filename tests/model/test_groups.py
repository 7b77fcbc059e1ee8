import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker.kernels import Dropout, apply_dropout
from reltucker.model.groups import RelationGroups


@given(st.lists(st.integers(0, 6), min_size=1, max_size=40))
def test_groups_are_contiguous_and_their_segments_cover_all_rows(relations: list[int]) -> None:
    given_relations = torch.tensor(relations)
    groups = RelationGroups.of(given_relations)
    ordered = given_relations[groups.order]
    assert sorted(groups.order.tolist()) == list(range(len(relations)))
    assert torch.equal(groups.relations[groups.index], ordered)
    assert len(set(groups.relations.tolist())) == len(groups.relations) == len(set(relations))
    row = group = 0
    for size, count in groups.segments:
        for _ in range(count):
            assert set(groups.index[row : row + size].tolist()) == {group}
            row, group = row + size, group + 1
    assert row == len(relations)
    sizes = [size for size, _ in groups.segments]
    assert sizes == sorted(set(sizes))


def test_products_multiply_each_row_with_its_own_matrix() -> None:
    relations = torch.tensor([2, 0, 2, 1, 2, 0])
    groups = RelationGroups.of(relations)
    rows = torch.randn(6, 3)
    matrices = torch.randn(3, 3, 3)
    result = groups.plain_products(matrices, rows)
    expected = torch.stack(
        [x @ matrices[g] for x, g in zip(rows, groups.index.tolist(), strict=True)]
    )
    assert torch.allclose(result, expected, atol=1e-6)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.integers(0, 6), min_size=1, max_size=40), st.integers(1, 9), st.floats(0, 0.9))
def test_compiled_queries_and_gradients_equal_plain_autograd(
    relations: list[int], dim: int, rate: float
) -> None:
    groups = RelationGroups.of(torch.tensor(relations))
    generator = torch.Generator().manual_seed(dim)
    mixing = torch.randn(len(groups.relations), dim, dim, generator=generator, requires_grad=True)
    subjects, objects, left, right = torch.randn(4, len(relations), dim, generator=generator)
    subjects.requires_grad_()
    objects.requires_grad_()
    inputs = (mixing, subjects, objects)
    dropout = Dropout(rate, key=5)
    result = groups.both_products(*inputs, dropout)
    gradients = torch.autograd.grad(result, inputs, (left, right))

    mask = apply_dropout(torch.ones_like(mixing), dropout)
    matrices = (mixing * mask)[groups.index]
    expected = (
        torch.einsum("ba,bac->bc", subjects, matrices),
        torch.einsum("bac,bc->ba", matrices, objects),
    )
    expected_gradients = torch.autograd.grad(expected, inputs, (left, right))
    for got, wanted in zip((*result, *gradients), (*expected, *expected_gradients), strict=True):
        assert torch.allclose(got, wanted, atol=1e-3, rtol=1e-4)
