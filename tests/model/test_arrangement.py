import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reltucker import kernels
from reltucker.kernels import grouped
from reltucker.model import Arrangement

QUESTIONS = st.lists(st.tuples(st.integers(0, 6), st.booleans()), min_size=1, max_size=60)


def arranged(questions: list[tuple[int, bool]]) -> tuple[Arrangement, torch.Tensor, torch.Tensor]:
    rows = torch.tensor([row for row, _ in questions])
    asks_subject = torch.tensor([way for _, way in questions])
    return Arrangement.of(rows, asks_subject, 9), rows, asks_subject


@settings(deadline=None)
@given(QUESTIONS)
def test_questions_stand_by_way_and_relation(questions: list[tuple[int, bool]]) -> None:
    a, rows, asks_subject = arranged(questions)
    assert sorted(a.order.tolist()) == list(range(len(questions)))
    assert a.relations.tolist() == sorted(set(rows.tolist()))
    assert torch.equal(a.relations[a.index], rows[a.order])
    ways = asks_subject[a.order]
    assert not ways[: a.objects].any()
    assert ways[a.objects :].all()
    for part in range(2):
        for u in range(len(a.relations)):
            inside = slice(int(a.starts[part, u]), int(a.starts[part, u + 1]))
            assert set(a.index[inside].tolist()) <= {u}
            assert set(ways[inside].tolist()) <= {bool(part)}
            assert a.order[inside].tolist() == sorted(a.order[inside].tolist())
    assert (int(a.starts[0, 0]), int(a.starts[1, -1])) == (0, len(questions))
    assert int(a.starts[0, -1]) == int(a.starts[1, 0]) == a.objects


@settings(deadline=None)
@given(QUESTIONS)
def test_the_loop_arranges_as_torch_does(questions: list[tuple[int, bool]]) -> None:
    rows = torch.tensor([row for row, _ in questions])
    asks_subject = torch.tensor([way for _, way in questions])
    found = kernels.arrange(rows, asks_subject, 9)
    expected = grouped.arrange_reference(rows, asks_subject)
    for one, other in zip(found, expected, strict=True):
        assert torch.equal(one, other)


@settings(max_examples=30, deadline=None)
@given(
    QUESTIONS,
    st.integers(1, 11),
    st.integers(2, 30),
    st.sampled_from([torch.float32, torch.float64]),
)
def test_products_and_outer_products_are_those_of_each_row(
    questions: list[tuple[int, bool]], dim: int, large: int, dtype: torch.dtype
) -> None:
    """Loops for small groups, matrix products for large ones, and torch alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(grouped, "LARGE_GROUP", large)
        a, _, _ = arranged(questions)
        generator = torch.Generator().manual_seed(dim)
        matrices = torch.randn(len(a.relations), dim, dim, generator=generator, dtype=dtype)
        rows, others = torch.randn(
            2, len(questions), dim, generator=generator, dtype=dtype
        ).unbind()
        for flipped in (False, True):
            found = kernels.grouped_products(matrices, rows, a.starts, flipped)
            for b, row in enumerate(rows):
                matrix = matrices[a.index[b]]
                along = (b < a.objects) != flipped
                expected = row @ matrix if along else matrix @ row
                assert torch.allclose(found[b], expected, atol=1e-4)
        outer = kernels.grouped_outer_products(rows, others, a.starts)
        expected = torch.zeros_like(matrices)
        for b in range(len(rows)):
            expected[a.index[b]] += torch.outer(rows[b], others[b])
        assert torch.allclose(outer, expected, atol=1e-3)
