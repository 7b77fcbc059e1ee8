import base64
import io
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import altair as alt
import numpy as np
import pytest
from PIL import Image

from reltucker.errors import ReltuckerError, ScoreError
from reltucker.model import CORES
from reltucker.report.charts import (
    bar_panels,
    chart_svg,
    quality_against,
    relation_bars,
    reliability_curve,
    search_history,
    skyline_of_trials,
    svg_png,
    training_curves,
    write_picture,
)
from reltucker.report.colors import DARK, GROUND, INK, MODELS, base_of, model_colors
from reltucker.report.matrices import mixing_heat_map, slice_density
from reltucker.report.theme import titled

METRICS = {"mrr": "MRR", "hits@1": "HITS@1", "hits@3": "HITS@3", "hits@10": "HITS@10"}
HOSTILE = "<script>alert('1')</script> & \"quoted\" \x00\x0b\ud800\uffff \u202e"


def records(mrrs: list[float]) -> list[dict[str, object]]:
    return [
        {
            "epoch": epoch,
            "loss": 1 / epoch,
            "valid": {"seen": {"mrr": mrr}},
            "best": mrr > max(mrrs[: epoch - 1], default=-1.0),
        }
        for epoch, mrr in enumerate(mrrs, 1)
    ]


def texts(svg: str) -> list[str]:
    return [element.text or "" for element in ET.fromstring(svg).findall(".//{*}text")]


def paths(svg: str, color: str) -> list[ET.Element]:
    return [
        e
        for e in ET.fromstring(svg).findall(".//{*}path")
        if color in (e.get("fill"), e.get("stroke"))
    ]


def heat_pixels(svg: str) -> np.ndarray:
    """The palette indices of the embedded picture."""
    (image,) = ET.fromstring(svg).findall(".//{*}image")
    url = next(value for key, value in image.attrib.items() if key.endswith("href"))
    png = base64.b64decode(url.removeprefix("data:image/png;base64,"))
    return np.asarray(Image.open(io.BytesIO(png)))


def test_training_curves_mark_the_epoch_whose_weights_were_kept():
    """An early epoch may have the best MRR and not count, its core being too dense."""
    dense_first = records([0.9, 0.3, 0.4])
    for record, best in zip(dense_first, (False, True, True), strict=True):
        record["best"] = best
    chart = training_curves({"SRT": dense_first})
    (marked,) = (rows for rows in chart.to_dict()["datasets"].values() if len(rows) == 1)
    assert marked[0]["epoch"] == 3


def test_training_curves_mark_the_best_epoch_of_each_model():
    chart = training_curves({"SRT": records([0.1, 0.4, 0.3]), "DRT": records([0.2, 0.25, 0.26])})
    marked = [
        (row["model"], row["epoch"])
        for rows in chart.to_dict()["datasets"].values()
        if len(rows) == 2
        for row in rows
    ]
    assert marked == [("SRT", 2), ("DRT", 3)]
    svg = chart_svg(chart)
    shown = texts(svg)
    assert {"SRT", "DRT", "epoch", "training loss"} <= set(shown)
    assert any(text.startswith("validation MRR") for text in shown)
    # Two lines, two marks and two symbols of the legend.
    assert len(paths(svg, MODELS["srt"][0])) + len(paths(svg, MODELS["drt"][0])) >= 8


def test_training_curves_without_validation_show_the_loss_alone():
    shown = texts(chart_svg(training_curves({"SRT": [{"epoch": 1, "loss": 2.0}]})))
    assert "training loss" in shown
    assert not any(text.startswith("validation") for text in shown)


def test_more_than_5000_points_are_drawn():
    svg = chart_svg(training_curves({"SRT": records([0.3] * 5_001 + [0.4])}))
    longest = max(
        (path.get("d") or "" for path in ET.fromstring(svg).findall(".//{*}path")), key=len
    )
    assert longest.count("L") == 5_001


def test_panels_print_every_metric_in_the_given_order():
    rows = [
        {"model": "zeta", "mrr": 0.111, "hits@1": 0.222, "hits@3": 0.333, "hits@10": 0.444},
        {"model": "alpha", "mrr": 0.555, "hits@1": float("nan"), "hits@10": 0.666},
    ]
    shown = texts(chart_svg(bar_panels(rows, METRICS, shares=True)))
    numbers = {"0.111", "0.222", "0.333", "0.444", "0.555", "0.666"}
    assert numbers | {"MRR", "HITS@1", "HITS@3", "HITS@10"} <= set(shown)
    assert shown.index("zeta") < shown.index("alpha")
    assert "NaN" not in shown


def test_panels_draw_intervals_where_a_row_has_them():
    rows = [
        {"model": "a", "mrr": 0.3, "mrr_low": 0.2, "mrr_high": 0.4},
        {"model": "b", "mrr": 0.1},
    ]
    (drawn,) = bar_panels(rows, METRICS, shares=True).to_dict()["datasets"].values()
    assert [(bar["low"], bar["value"], bar["high"]) for bar in drawn] == [
        (0.2, 0.3, 0.4),
        (0.1, 0.1, 0.1),
    ]


def test_relation_bars_keep_the_order_of_rows():
    rows = [
        {"relation": f"r{number}", "model": model, "mrr": 0.5, "tested": 1000 * number}
        for number in (3, 1, 2)
        for model in ("SRT", "DRT")
    ]
    shown = texts(chart_svg(relation_bars(rows)))
    assert [text for text in shown if re.fullmatch(r"r\d", text)] == ["r3", "r1", "r2"]
    assert shown.index("SRT") < shown.index("DRT")
    assert [text for text in shown if text.endswith(" triples")] == [
        "3,000 triples",
        "1,000 triples",
        "2,000 triples",
    ]


def scales(chart: object, channel: str) -> list[dict[str, object]]:
    """Domain to range of every scale of models that a chart has in a channel."""
    found = []

    def look(value: object) -> None:
        if isinstance(value, list):
            for inner in value:
                look(inner)
        elif isinstance(value, dict):
            encoding = value.get("encoding", {}).get(channel, {})
            if encoding.get("field") == "model":
                scale = encoding["scale"]
                found.append(dict(zip(scale["domain"], scale["range"], strict=True)))
            for inner in value.values():
                look(inner)

    look(chart.to_dict())  # type: ignore[attr-defined]
    assert found
    return found


def test_every_core_has_a_colour_of_its_own_in_light_and_dark():
    assert set(MODELS) == set(CORES)
    assert [base_of(core.title) for core in CORES.values()] == list(CORES)
    for place in (0, 1):
        assert len({pair[place] for pair in MODELS.values()}) == len(MODELS)
    assert all(DARK[light] == dark for light, dark in MODELS.values())


def test_a_model_has_one_colour_in_every_chart_whatever_stands_beside_it():
    trial = {"number": 0, "state": "complete", "mrr": 0.6, "effective_parameters": 10}
    for models in (["SRT"], ["Merged", "Block", "SRT"], ["SRT", "ComplEx, reciprocal"]):
        rows = [
            {"model": model, "relation": "r", "tested": 2, "size": place, **trial}
            for place, model in enumerate(models)
        ]
        for chart in (
            training_curves({model: records([0.1, 0.2]) for model in models}),
            bar_panels(rows, METRICS, shares=True),
            relation_bars(rows),
            quality_against(rows, "size", "d_e"),
            search_history(rows),
            skyline_of_trials(rows, rows),
        ):
            for scale in scales(chart, "color"):
                for model in models:
                    assert scale[model] == MODELS[base_of(model)][0]
    for draw in (
        reliability_curve([{"count": 1, "mean_probability": 0.1, "share_true": 0}], "srt"),
        slice_density(np.array([0.5]), "SRT"),
    ):
        assert MODELS["srt"][0] in chart_svg(draw)


def test_fits_of_one_model_share_its_colour_and_are_told_apart():
    names = ["ComplEx, reciprocal", "DRT", "ComplEx"]
    for order in (names, names[::-1]):
        rows = [{"model": name, "mrr": 0.5, "size": 3} for name in order]
        (shade,) = scales(bar_panels(rows, METRICS), "opacity")
        assert shade == {"ComplEx, reciprocal": 0.5, "DRT": 1.0, "ComplEx": 1.0}
        for dash in scales(training_curves(dict.fromkeys(order, records([0.1]))), "strokeDash"):
            assert dash["ComplEx"] == dash["DRT"] != dash["ComplEx, reciprocal"]
        (shape,) = scales(quality_against(rows, "size", "d_e"), "shape")
        assert shape["ComplEx"] != shape["ComplEx, reciprocal"]


def test_other_names_take_colours_that_no_model_of_the_chart_has():
    colors = model_colors(["mine", "ComplEx", "yours", "mine, reciprocal", ""])
    assert colors[0] == colors[3]
    assert len(set(colors)) == 4
    assert colors[-1] not in dict(MODELS.values())


def test_long_names_are_shortened_but_stay_apart():
    names = ["x" * 50_000 + middle + "y" * 50_000 for middle in "ab"]
    svg = chart_svg(
        relation_bars(
            [{"relation": name, "model": "SRT", "mrr": 0.5, "tested": 1} for name in names]
        )
    )
    assert len(svg) < 30_000
    shown = [text for text in texts(svg) if text.startswith("xxx")]
    assert len(shown) == 2
    assert all(text.endswith("yyy") and "…" in text for text in shown)


@pytest.mark.parametrize(
    "chart",
    [
        training_curves({HOSTILE: records([0.1, 0.2])}),
        bar_panels([{"model": HOSTILE, "mrr": 0.3}], METRICS),
        relation_bars([{"relation": HOSTILE, "model": "SRT", "mrr": 0.3, "tested": 1}]),
        mixing_heat_map(np.eye(2), HOSTILE),
    ],
    ids=["training", "comparison", "relation", "heat map"],
)
def test_hostile_names_are_text_and_nothing_else(chart):
    svg = chart_svg(chart)
    root = ET.fromstring(svg)
    assert not root.findall(".//{*}script")
    assert any("<script>alert(" in text for text in texts(svg))


def test_heat_map_is_small_and_oriented_like_the_matrix():
    matrix = np.zeros((200, 200))
    matrix[3, 150] = -2.0
    matrix[100, 0] = 1.0
    svg = chart_svg(mixing_heat_map(matrix, "born_in"))
    pixels = heat_pixels(svg)
    factor = pixels.shape[0] // 200
    assert pixels.shape == (200 * factor, 200 * factor)
    cells = pixels[::factor, ::factor]
    assert cells[3, 150] == 255
    assert cells[100, 0] == 128
    assert np.count_nonzero(cells) == 2
    assert {"born_in", "|M_k|", "subject dimension i", "object dimension j"} <= set(texts(svg))
    dense = np.random.default_rng(0).standard_normal((200, 200))
    assert len(chart_svg(mixing_heat_map(dense, "dense"))) < 300_000


def test_heat_map_of_zeros_is_dark_and_not_a_division_by_zero():
    assert not heat_pixels(chart_svg(mixing_heat_map(np.zeros((3, 3)), "empty"))).any()


def test_heat_map_refuses_what_is_no_matrix_of_numbers():
    with pytest.raises(ScoreError, match="not finite"):
        mixing_heat_map(np.array([[np.nan]]), "x")
    with pytest.raises(ReltuckerError, match=r"shape \(3,\)"):
        mixing_heat_map(np.zeros(3), "x")


@pytest.mark.parametrize(
    "draw",
    [
        lambda: training_curves({"SRT": []}),
        lambda: bar_panels([], METRICS),
        lambda: relation_bars([]),
        lambda: quality_against([], "size", "x"),
        lambda: bar_panels([{"model": "a"}], METRICS),
        lambda: search_history([]),
    ],
    ids=["training", "comparison", "relation", "quality", "cost", "history"],
)
def test_nothing_to_draw_is_said(draw):
    with pytest.raises(ReltuckerError, match="nothing to draw"):
        draw()


def test_a_picture_has_twice_the_size_of_its_drawing():
    svg = chart_svg(mixing_heat_map(np.eye(4), "identity"))
    root = ET.fromstring(svg)
    width, height = Image.open(io.BytesIO(svg_png(svg))).size
    assert width == pytest.approx(2 * float(root.attrib["width"]), abs=2)
    assert height == pytest.approx(2 * float(root.attrib["height"]), abs=2)


def fit(model: str, size: int, mrr: float) -> dict[str, object]:
    return {"model": model, "size": size, "mrr": mrr, "mrr_low": mrr - 0.1, "mrr_high": mrr + 0.1}


def test_models_that_share_sizes_are_drawn_at_their_true_sizes() -> None:
    rows = [fit("a", 50, 0.3), fit("a", 100, 0.4), fit(HOSTILE, 50, 0.2), fit(HOSTILE, 100, 0.5)]
    chart = quality_against(rows, "size", "entity size")
    document = chart.to_dict()
    (points,) = document["datasets"].values()
    assert [point["size"] for point in points] == [50, 100, 50, 100]
    for layer in document["layer"]:
        assert layer["encoding"]["x"]["type"] == "quantitative"
        assert "xOffset" not in layer["encoding"]
    shown = texts(chart_svg(chart))
    assert {"entity size", "MRR", "50", "100", "a"} <= set(shown)
    assert any(text.startswith("<script>") for text in shown)


def test_one_size_is_a_category_with_the_models_side_by_side() -> None:
    chart = quality_against([fit("ComplEx", 100, 0.3), fit("DRT", 100, 0.4)], "size", "d_e")
    for layer in chart.to_dict()["layer"]:
        assert layer["encoding"]["x"]["type"] == "ordinal"
        assert layer["encoding"]["xOffset"]["field"] == "model"
    assert texts(chart_svg(chart)).count("100") == 1


@pytest.mark.parametrize(("mrr", "end"), [(0.97, 1), (0.7, 1), (0.2, None)])
def test_axes_of_mrr_end_at_1_unless_all_values_are_low(mrr: float, end: int | None) -> None:
    row = fit("SRT", 10, mrr) | {"number": 0, "state": "complete", "effective_parameters": 10}
    curves = training_curves({"SRT": records([0.1, mrr])}).to_dict()["vconcat"][0]["layer"]
    bars = bar_panels([row], METRICS, shares=True).to_dict()["hconcat"][0]["layer"]
    axes = [layer["encoding"]["y"] for layer in curves]
    axes += [
        layer["encoding"]["y"] for layer in quality_against([row], "size", "d").to_dict()["layer"]
    ]
    axes += [search_history([row]).to_dict()["layer"][1]["encoding"]["y"]]
    axes += [skyline_of_trials([row], [row]).to_dict()["layer"][1]["encoding"]["y"]]
    for axis in axes:
        assert axis["scale"].get("domain", [None, None])[1] == end
    assert bars[0]["encoding"]["x"]["scale"]["domain"][1] == (end or pytest.approx(1.35 * 0.3))


def test_points_have_their_notes_and_true_sizes() -> None:
    rows = [fit("a", 1000, 0.3), fit("a", 2500, 0.4), fit("b", 1700, 0.2)]
    chart = quality_against(rows, "size", "parameters", note="size")
    (points,) = chart.to_dict()["datasets"].values()
    assert [point["size"] for point in points] == [1000, 2500, 1700]
    assert {"1000", "2500", "1700"} <= set(texts(chart_svg(chart)))


def test_panels_leave_out_what_is_unknown() -> None:
    rows = [
        {"fit": "a 50", "model": "a", "seconds_per_epoch": 0.1234, "seconds": 12_345.0},
        {"fit": "b 50", "model": "b", "seconds_per_epoch": 2.0, "peak_mebibytes": None},
    ]
    titles = {"seconds_per_epoch": "each", "seconds": "all", "peak_mebibytes": "memory"}
    shown = texts(chart_svg(bar_panels(rows, titles, by="fit", format=",.3~r")))
    assert {"a 50", "b 50", "0.123", "12,300", "each"} <= set(shown)
    assert not any("memory" in text for text in shown)


TRIALS = [
    {"number": number, "model": "SRT", "state": state, "mrr": mrr, "effective_parameters": size}
    for number, (state, mrr, size) in enumerate(
        [
            ("complete", 0.2, 1000),
            ("pruned", 0.9, 1000),
            ("failed", None, None),
            ("complete", 0.1, 2000),
        ]
    )
]


def test_the_history_of_a_search_has_the_best_complete_trial_so_far() -> None:
    chart = search_history(TRIALS)
    (points,) = chart.to_dict()["datasets"].values()
    assert [(p["number"], p["best"]) for p in points] == [(0, 0.2), (1, 0.2), (3, 0.2)]
    assert {"complete", "pruned", "trial"} <= set(texts(chart_svg(chart)))


def test_the_skyline_of_trials_names_the_unbeaten() -> None:
    done = [TRIALS[0], TRIALS[3]]
    shown = texts(chart_svg(skyline_of_trials(done, done[:1], limit=1500)))
    assert {"0", "SRT", "effective parameters"} <= set(shown)
    assert "3" not in shown


def test_the_theme_is_ours_alone() -> None:
    """Charts that a user of the library makes keep their own look."""
    chart_svg(slice_density(np.array([0.5, 0.25]), "SRT"))
    assert alt.theme.active == "default"


def test_reliability_has_a_point_for_each_bin_with_triples(tmp_path: Path) -> None:
    bins = [
        {"count": 900, "mean_probability": 0.04, "share_true": 0.05},
        {"count": 0, "mean_probability": None, "share_true": None},
        {"count": 50, "mean_probability": 0.9, "share_true": 0.8},
    ]
    chart = titled(reliability_curve(bins, "ComplEx"), "Do they?", "families, valid")
    document = chart.to_dict()
    names = [layer["data"]["name"] for layer in document["layer"]]
    assert [document["datasets"][name] for name in names[1:]] == [[bins[0], bins[2]]] * 2
    png, svg = write_picture(chart, tmp_path / "curve.png")
    assert Image.open(io.BytesIO(png.read_bytes())).size[0] > 500
    assert {"share of true triples", "Do they?", "families, valid"} <= set(
        texts(svg.read_text(encoding="utf-8"))
    )
    with pytest.raises(ReltuckerError, match="nothing to draw"):
        reliability_curve(bins[1:2], "ComplEx")


def test_a_picture_follows_the_dark_scheme_and_its_png_is_light(tmp_path: Path) -> None:
    chart = bar_panels([{"model": "SRT", "mrr": 0.6}], METRICS, shares=True)
    png, file = write_picture(chart, tmp_path / "bars.png")
    svg = file.read_text(encoding="utf-8")
    style = ET.fromstring(svg).findtext("{*}style") or ""
    assert style.startswith("@media (prefers-color-scheme: dark){")
    changed = dict(re.findall(r'\[fill="([^"]+)"\]\{fill:([^}]+)\}', style))
    light, dark = MODELS["srt"]
    assert changed == {GROUND: DARK[GROUND], INK: DARK[INK], light: dark}
    # Nothing is drawn in a colour that would stay as it is.
    drawn = set(re.findall(r'(?:fill|stroke)="([^"]+)"', svg.replace(style, "")))
    assert drawn - {"none", "transparent"} <= set(DARK)
    assert Image.open(png).convert("RGB").getpixel((1, 1)) == (255, 255, 255)
