"""The page as text: one file, links that lead somewhere, hostile texts, nothing leaked."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from real_modules import RUNS, explained_run
from report_inputs import BIDI, explained, hostile_pair, hostile_run, small_pair

from xlagraph.message import duration
from xlagraph.report.build import pair_report, run_report
from xlagraph.report.render import render


class _Page(HTMLParser):
    """Addresses, identifiers and tags of a page."""

    def __init__(self, text: str):
        super().__init__()
        self.links: list[str] = []
        self.ids: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        for key, value in attrs:
            if key in ("href", "src", "action", "srcset", "data"):
                self.links.append(value or "")
            elif key == "id":
                self.ids.append(value or "")


@pytest.mark.parametrize("name", ["carry", "fixed", "pair"])
def test_a_page_is_one_file_and_its_links_lead_somewhere(name: str) -> None:
    pair = pair_report(small_pair(), ("a.hlo", "b.hlo"))
    text = render(pair if name == "pair" else run_report(explained(name)))
    page = _Page(text)
    assert len(page.ids) == len(set(page.ids))
    assert not {"link", "img", "iframe", "object", "base"} & set(page.tags)
    for link in page.links:
        assert link.startswith("#"), link
        to = re.fullmatch(
            r"#/pair/([\w~]+)/(?:i/[ab]\d+|i|io(?:/(?:in|out)-[ab]\d+)?|collectives)", link
        )
        assert link == "#/" or (to and f"blob-pair-{to[1]}" in page.ids) or link[1:] in page.ids
    outside = set(re.findall(r"https?://[^\s\"'<]+", text))
    assert outside <= {"http://www.w3.org/2000/svg"}


def test_the_same_input_gives_the_same_page() -> None:
    assert render(run_report(explained("carry"))) == render(run_report(explained("carry")))


def test_what_else_differs_stands_with_the_main_cause() -> None:
    run = explained_run(RUNS.parent / "pairs" / "extra_sync")
    (group,) = [one for one in run.groups if one.further]
    text = re.sub(r"<[^<>]*>", "", render(run_report(run)))
    for cause in group.further:
        assert str(cause.title)[1:40] in text
        assert f"({cause.kind.id})" in text


def test_hostile_texts_stay_texts() -> None:
    specs = ("<b>a</b></title><script>window.owned = 1</script>", "b" + BIDI)
    text = render(pair_report(hostile_pair(), specs))
    page = _Page(text)
    plain = _Page(render(pair_report(small_pair(), ("a", "b"))))
    assert page.tags.count("script") == plain.tags.count("script")
    assert {"img", "b"}.isdisjoint(page.tags)
    assert "\u202e" not in text


def test_hostile_records_stay_texts() -> None:
    report = run_report(hostile_run())
    text = render(report)
    page = _Page(text)
    assert page.tags.count("script") == len(report.blobs) + 1, "the page's own, and its data"
    assert "img" not in page.tags
    assert "\u202e" not in text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0 s"),
        (0.0123, "12 ms"),
        (0.0997, "0.10 s"),
        (0.9959, "1.0 s"),
        (9.81, "9.8 s"),
        (59.98, "1 min 0 s"),
        (150, "2 min 30 s"),
        (3599.9, "1.0 h"),
        (7200, "2.0 h"),
    ],
)
def test_durations(value: float, text: str) -> None:
    assert duration(value) == text


def test_statements_of_a_fix_stand_below_one_another() -> None:
    page = render(run_report(explained("demo")))
    (first, *_) = re.findall(r'<span class="part listing">([^<]*)</span>', page)
    lines = first.split("\n")
    assert lines[0] == "m = bert.cls.predictions"
    assert lines[1].startswith("m.bias = torch.nn.Parameter(")
    assert re.search(r"\.part\.listing \{[^}]*white-space: pre;", page)


def test_a_card_says_of_which_outputs_it_is_proved() -> None:
    report = run_report(explained("demo"))
    said = "".join(text for _, text in report.causes[0].compared)
    assert said == "100 of D's 113 and E's 122 outputs"
    assert f"✓ checked for {said}: without" in re.sub(r"<[^>]*>", "", render(report)).replace(
        "&#39;", "'"
    )
