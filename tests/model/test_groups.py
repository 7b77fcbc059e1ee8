import torch
from hypothesis import given
from hypothesis import strategies as st

from reltucker.model.groups import RelationGroups, grouped_product


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


def test_grouped_product_multiplies_each_row_with_its_own_matrix() -> None:
    relations = torch.tensor([2, 0, 2, 1, 2, 0])
    groups = RelationGroups.of(relations)
    rows = torch.randn(6, 3)
    matrices = torch.randn(3, 3, 3)
    result = grouped_product(rows, matrices, groups)
    expected = torch.stack(
        [x @ matrices[g] for x, g in zip(rows, groups.index.tolist(), strict=True)]
    )
    assert torch.allclose(result, expected, atol=1e-6)
