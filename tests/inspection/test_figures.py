"""Figures and the page: labels, files, fonts."""

import logging
import xml.etree.ElementTree as ElementTree
from dataclasses import replace
from html.parser import HTMLParser

import pytest
import torch
from matplotlib.backends.backend_agg import FigureCanvasAgg

from plugformer.errors import ConfigurationError
from plugformer.interfaces import ModelContext
from plugformer_cli import drawing as drawing_module
from plugformer_cli.drawing import drawing_style
from plugformer_cli.page import render_page, save_figures
from plugformer_inspection.attention import AttentionLocation, AttentionView
from plugformer_inspection.attention_maps import MAX_TOKENS, draw_attention, select_layers
from plugformer_inspection.history import History, draw_history
from plugformer_inspection.positions import draw_positions, view_encoding

CHINESE = ["晚", "风", "摇", "树", "<end>"]
DOLLARS = ["<begin>", "$x$", " ", "a<b&c", "\x07"]
SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(autouse=True)
def style():
    with drawing_style((), print):
        yield


def cross(maps=3, query=DOLLARS, key=CHINESE, layer=0):
    weights = torch.rand(maps, len(query), len(key), generator=torch.Generator().manual_seed(1)).softmax(-1)
    return AttentionView(AttentionLocation("decoder", layer, "cross"), "SomeAttention", query, key, weights)


def texts(svg):
    root = ElementTree.fromstring(svg)  # noqa: S314 (our own file)
    return ["".join(each.itertext()) for each in root.iter(f"{SVG}text")]


def test_axes_carry_the_tokens_and_panels_the_weights():
    view = cross()
    (drawing,) = draw_attention([view])
    assert drawing.name == "attention-decoder-cross-layer-0"
    panels = [axes for axes in drawing.figure.axes if axes.get_title()]
    assert [axes.get_title() for axes in panels] == ["head 0", "head 1", "head 2"]
    rows = ["<begin>", "$x$", "␣", "a<b&c", "�"]
    assert [text.get_text() for text in panels[0].texts] == [*CHINESE, *rows]
    assert [text.get_text() for text in panels[1].texts] == CHINESE  # the first of a row names its rows
    for axes, weights in zip(panels, view.weights, strict=True):
        assert torch.equal(torch.as_tensor(axes.images[0].get_array()), weights)


def test_all_labels_are_within_the_figure():
    (drawing,) = draw_attention([cross(maps=1, query=["a", "b"], key=["c", "d"])])
    canvas = FigureCanvasAgg(drawing.figure)
    canvas.draw()
    (bar,) = [axes for axes in drawing.figure.axes if not axes.get_title()]
    low, high = bar.get_tightbbox(canvas.get_renderer()).intervaly
    assert 0 <= low < high <= drawing.figure.bbox.height


def test_the_best_update_is_named_and_three_curves_leave_no_place_empty():
    points = [(1, 2.0), (2, 1.0)]
    curves = {name: {"validation": points} for name in ("loss", "exact_match", "token_accuracy")}
    (drawing,) = draw_history(History(curves, 2))
    assert [[each.get_text() for each in axes.get_legend().texts] for axes in drawing.figure.axes] == [
        ["validation", "best"]
    ] * 3
    assert drawing.figure.axes[0].get_gridspec().get_geometry() == (1, 3)


def test_svg_is_xml_whose_text_is_text_and_knows_fonts_for_it():
    (drawing,) = draw_attention([cross()])
    svg = drawing.render("svg").decode()
    assert {*CHINESE, "$x$", "a<b&c"} <= set(texts(svg))
    assert "'Noto Sans CJK SC'" in svg and "sans-serif" in svg


@pytest.mark.parametrize(
    ("maps", "query", "key"), [(1, 1, 1), (1, 2, 2), (16, 5, 2), (5, 90, 70), (5, 2, 60)]
)
def test_every_panel_and_every_token_lies_inside_the_figure(maps, query, key):
    view = cross(maps, ["<begin>"] * query, ["<unknown>"] * key)
    (drawing,) = draw_attention([view])
    figure = drawing.figure
    canvas = FigureCanvasAgg(figure)
    canvas.draw()
    width, height = figure.bbox.size
    for axes in figure.axes:
        for box in [
            axes.get_tightbbox(canvas.get_renderer()),
            *(each.get_window_extent() for each in axes.texts),
        ]:
            assert box.x0 >= 0 and box.y0 >= 0
            assert box.x1 <= width and box.y1 <= height
    assert figure.get_size_inches()[0] < 14
    assert (f"first {MAX_TOKENS} of" in drawing.caption) == (max(query, key) > MAX_TOKENS)


def test_few_layers_of_many_are_drawn_unless_select_layers():
    views = [cross(layer=layer) for layer in range(12)]
    assert [view.place.layer for view in select_layers(views, ())] == [0, 4, 7, 11]
    assert [view.place.layer for view in select_layers(views, (3, 1))] == [1, 3]
    assert select_layers(views[:4], ()) == views[:4]
    with pytest.raises(ConfigurationError, match="--layer 12: no such layer; expected a number from 0 to 11"):
        select_layers(views, (12,))


def test_a_notice_names_characters_without_a_font(monkeypatch, caplog):
    monkeypatch.setattr(drawing_module, "CJK_FAMILIES", ())
    notices = []
    with drawing_style(["ä⏎", "晚风", "a b"], notices.append), caplog.at_level(logging.WARNING):
        next(draw_attention([cross()])).render("png")
    assert [text.partition(":")[0] for text in notices] == ["no installed font has 晚 风"]
    assert not caplog.records


def test_every_encoding_that_does_something_is_drawn(registry, any_position):
    context = ModelContext(width=12, heads=3, ffn_width=20, max_length=40)
    view = view_encoding(registry.create("position", any_position, context), 10, 12, 4)
    drawings = list(draw_positions(replace(view, owner="encoder")))
    assert len(drawings) == (any_position != "none")
    for drawing in drawings:
        assert drawing.name.startswith("positions-encoder-")
        assert drawing.render("png").startswith(b"\x89PNG")
        assert "position" in " ".join(texts(drawing.render("svg")))


def test_a_bias_over_distance_is_a_line_for_each_head(registry):
    context = ModelContext(width=12, heads=3, ffn_width=20)
    bias = registry.create("position", "alibi", context)
    (drawing,) = draw_positions(view_encoding(bias, 4, 12, 4))
    lines = drawing.figure.axes[0].lines
    assert list(lines[0].get_xdata()) == [-3, -2, -1, 0, 1, 2, 3]
    assert list(lines[0].get_ydata()) == pytest.approx([each * -(2**-4) for each in (3, 2, 1, 0, 1, 2, 3)])
    assert len(lines) == 3


def test_curves_are_the_logged_figures():
    history = History(
        {
            "learning_rate": {"training": [(1, 0.1), (2, 0.2)]},
            "exact_match": {"validation": [(2, 0.5)]},
            "loss": {"training": [(1, 500.0), (2, float("inf"))], "validation": [(2, 1.0)]},
        },
        best=2,
    )
    curves, rate = draw_history(history)
    assert [axes.get_title() for axes in curves.figure.axes] == ["loss", "exact match"]
    assert curves.figure.axes[0].lines[0].get_ydata()[0] == 500.0
    assert curves.figure.axes[0].get_yscale() == "log"
    assert list(rate.figure.axes[0].lines[0].get_ydata()) == [0.1, 0.2]
    assert "100" in texts(curves.render("svg"))  # no formula such as 10^2
    assert list(draw_history(History({}, None))) == []


class Attributes(HTMLParser):
    """Collects attributes of a page by name."""

    def __init__(self, text):
        super().__init__()
        self.found = {}
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            self.found.setdefault(name, []).append(value)


def test_the_page_needs_nothing_else_and_no_identifier_occurs_twice():
    files = []
    drawings = (drawing for layer in range(2) for drawing in draw_attention([cross(layer=layer)]))
    figures = save_figures(drawings, lambda name, content: files.append(name))
    assert len(files) == 4
    text = render_page(
        "plugformer_inspection",
        "plot.html",
        title="<b> & co",
        facts=[("run", "a<b")],
        scores=[],
        sections=[("Attention", ["Input: <script>晚"], figures)],
    )
    assert "&lt;b&gt; &amp; co" in text and "Input: &lt;script&gt;晚" in text and "<script" not in text
    attributes = Attributes(text).found
    assert "src" not in attributes
    links = attributes["xlink:href"]
    assert all(link.startswith(("#", "data:")) for link in links)
    assert "url(http" not in text and "@import" not in text and "@font-face" not in text
    assert len(attributes["id"]) == len(set(attributes["id"]))
    assert {link[1:] for link in links if link.startswith("#")} <= set(attributes["id"])
