import xml.etree.ElementTree as ET

import pytest

from reltucker.errors import ReltuckerError
from reltucker.study.charts import chart_svg
from reltucker.study.comparison_charts import cost_bars, quality_against

HOSTILE = "<script>alert('1')</script> & \"quoted\" \x00\ud800"


def fit(model: str, size: int, mrr: float) -> dict[str, object]:
    return {"model": model, "size": size, "mrr": mrr, "mrr_low": mrr - 0.1, "mrr_high": mrr + 0.1}


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).findall(".//{*}text")]


def test_models_that_share_a_size_are_drawn_apart_around_it() -> None:
    rows = [fit("a", 50, 0.3), fit("a", 100, 0.4), fit(HOSTILE, 50, 0.2), fit(HOSTILE, 100, 0.5)]
    chart = quality_against(rows, "size", "entity size")
    (points,) = chart.to_dict()["datasets"].values()
    sizes = [point["size"] for point in points]
    assert sizes[0] < 50 < sizes[2]
    assert sizes[1] < 100 < sizes[3]
    assert max(abs(drawn - row["size"]) for drawn, row in zip(sizes, rows, strict=True)) < 1  # type: ignore[operator]
    shown = texts(chart_svg(chart))
    assert {"entity size", "MRR", "50", "100", "a"} <= set(shown)
    assert any(text.startswith("<script>") for text in shown)


def test_points_have_their_notes_and_true_sizes() -> None:
    rows = [fit("a", 1000, 0.3), fit("a", 2500, 0.4), fit("b", 1700, 0.2)]
    chart = quality_against(rows, "size", "parameters", note="size")
    (points,) = chart.to_dict()["datasets"].values()
    assert [point["size"] for point in points] == [1000, 2500, 1700]
    assert {"1000", "2500", "1700"} <= set(texts(chart_svg(chart)))


def test_cost_bars_leave_out_what_is_unknown() -> None:
    rows = [
        {"fit": "a 50", "model": "a", "seconds_per_epoch": 0.1234, "seconds": 12_345.0},
        {"fit": "b 50", "model": "b", "seconds_per_epoch": 2.0, "peak_mebibytes": None},
    ]
    shown = texts(chart_svg(cost_bars(rows)))
    assert {"a 50", "b 50", "0.123", "12,300", "seconds per epoch"} <= set(shown)
    assert not any("memory" in text for text in shown)


def test_nothing_to_draw_is_said() -> None:
    with pytest.raises(ReltuckerError, match="nothing to draw"):
        quality_against([], "size", "x")
    with pytest.raises(ReltuckerError, match="nothing to draw"):
        cost_bars([{"fit": "a", "model": "a"}])
