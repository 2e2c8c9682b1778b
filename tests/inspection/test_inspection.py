"""The page of a model says what the model says, in numbers, words and charts."""

from __future__ import annotations

import json
import re
from html import unescape
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from selenium.webdriver import Chrome
from selenium.webdriver.common.action_chains import ActionChains
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from in_browser import complaints, contrasts, fetched, open_page, too_wide
from online_laplace import OnlineLaplaceClassifier, OnlineLaplaceRegressor
from online_laplace.errors import MissingExtraError
from online_laplace.inspection.effects import DRAWS, effects
from online_laplace.inspection.page import render_page
from online_laplace.inspection.subject import Subject
from online_laplace.inspection.verdict import verdict
from online_laplace.tables.model import TableModel

QUICK = {"hidden": 5, "members": 2, "max_steps": 12, "random_state": 0}
LONG = "a name of two hundred characters " * 6 + "ab"
ODD = ["a$b^c_$", "面積(平方メートル)", LONG, "<script>alert(1)</script>", "</script><b>", "x{{y}}", "a.b[c]"]


def table() -> pd.DataFrame:
    random = np.random.default_rng(0)
    frame = pd.DataFrame({name: random.normal(size=90) for name in ODD})
    frame["city"] = random.choice(["Bergen", "Oslo", "$Tromsø$"], 90)
    frame["$price_^ (euros)"] = 50_000 + 9000 * frame[ODD[0]] + 4000 * (frame.city == "Oslo")
    frame["$price_^ (euros)"] += random.normal(0, 1500, 90)
    return frame


@pytest.fixture(scope="module")
def subject() -> Subject:
    model = TableModel.fit(
        table(), "$price_^ (euros)", OnlineLaplaceRegressor(**QUICK, prior="ard"), holdout=0.4
    )
    assert model.held_out is not None
    return Subject.of(model, model.held_out, "held-out rows", None)


@pytest.fixture(scope="module")
def of_classes() -> Subject:
    frame = table().assign(kind=np.where(table()[ODD[0]] > 0, "up", "<down>"))
    frame = frame.drop(columns="$price_^ (euros)")
    model = TableModel.fit(frame, "kind", OnlineLaplaceClassifier(**QUICK), labels="text", holdout=0.4)
    assert model.held_out is not None
    return Subject.of(model, model.held_out, "held-out rows", None)


@pytest.fixture(scope="module")
def page(subject: Subject, tmp_path_factory: pytest.TempPathFactory) -> Path:
    subject.estimator.leaderboard_ = [
        {"candidate": "tanh, 50 units", "weight": 0.75, "evidence": -412.5, "seconds": 1.25},
        {"candidate": "a line <&>", "weight": 0.25, "evidence": None, "seconds": 0.01},
    ]
    path = tmp_path_factory.mktemp("page") / "inspect.html"
    path.write_text(render_page(subject, [("target", subject.target)]))
    del subject.estimator.leaderboard_
    return path


def specifications(page: str) -> list[dict]:
    found = re.findall(r'<script type="application/json" class="specification">(.*?)</script>', page)
    return [json.loads(one) for one in found]


def test_the_verdict_is_in_the_targets_unit_and_counts_what_lies_inside(subject: Subject) -> None:
    told = verdict(subject)
    predicted = subject.estimator.predict_dist(subject.X)
    typical = np.median(np.abs(subject.y - predicted.mean()))
    said = float(re.search(r"within ± ([\d,.]+) euros", told)[1].replace(",", ""))
    assert said == pytest.approx(typical, rel=0.05)
    lower, upper = predicted.interval(0.9)
    inside = np.mean((lower <= subject.y) & (subject.y <= upper))
    assert f"90% intervals held {inside:.0%} of 36 held-out rows" in told


def test_a_verdict_on_training_rows_says_that_they_flatter(subject: Subject) -> None:
    where = "training rows, which flatter the model"
    told = verdict(Subject.of(subject.model, (subject.X, subject.y), where, "kroner"))
    assert "kroner" in told and "euros" not in told.replace(subject.target, "")
    assert told.endswith("on new ones it will do worse.")


def test_a_verdict_on_classes_compares_with_the_commonest(of_classes: Subject) -> None:
    right = np.mean(of_classes.estimator.predict(of_classes.X) == of_classes.y)
    commonest = max(np.mean(of_classes.y == label) for label in ("up", "<down>"))
    told = verdict(of_classes)
    assert f"correctly in {right:.0%} of 36 held-out rows" in told and f"right in {commonest:.0%}" in told


def test_a_verdict_on_one_row_calls_nothing_typical(subject: Subject, of_classes: Subject) -> None:
    for one in (subject, of_classes):
        told = verdict(Subject.of(one.model, (one.X[:1], one.y[:1]), "held-out rows", None))
        assert "1 held-out row" in told and "rows" not in told and "± 0" not in told
        assert told.endswith("One row is too few to judge by.")


def test_an_effect_is_the_average_prediction_with_one_column_set(subject: Subject) -> None:
    found = {effect.column: effect for effect in effects(subject)}
    assert next(iter(found)) == ODD[0] and set(found) == {*ODD, "city"}
    number, text = found[ODD[0]], found["city"]
    for place in (0, 10):
        slow = subject.estimator.predict(subject.X.assign(**{ODD[0]: number.places[place]})).mean()
        assert number.mean[place, 0] == pytest.approx(slow)
    assert text.places == ["$Tromsø$", "Bergen", "Oslo"]
    oslo = subject.X.assign(**{"city=$Tromsø$": 0.0, "city=Bergen": 0.0, "city=Oslo": 1.0})
    assert text.mean[2, 0] == pytest.approx(subject.estimator.predict(oslo).mean())
    # The band is that of the average: its variance is the mean of the joint covariance of the rows.
    _, joint = subject.estimator.predict(oslo, return_cov=True, noise=False)
    half = 1.645 * np.sqrt(joint.mean())
    assert (text.upper - text.mean)[2, 0] == pytest.approx(half, rel=4 / np.sqrt(2 * DRAWS))


def test_of_many_columns_those_that_matter_are_drawn() -> None:
    random = np.random.default_rng(1)
    frame = pd.DataFrame(random.normal(size=(80, 30)), columns=[f"c{i}" for i in range(30)])
    frame["y"] = 5 * frame.c27 - 3 * frame.c8 + random.normal(0, 0.1, 80)
    model = TableModel.fit(frame, "y", OnlineLaplaceRegressor(**QUICK))
    found = effects(Subject.of(model, (frame.drop(columns="y"), frame.y.to_numpy()), "rows", None))
    assert len(found) == 24 and [effect.column for effect in found[:2]] == ["c27", "c8"]


def test_effects_on_classes_are_probabilities(of_classes: Subject) -> None:
    found = effects(of_classes)
    assert found[0].column == ODD[0] and found[0].series == ["<down>", "up"]
    for effect in found:
        np.testing.assert_allclose(effect.mean.sum(axis=1), 1)
        assert (effect.lower <= effect.upper).all()


def test_names_are_shown_as_they_are_and_are_never_markup(page: Path) -> None:
    text = page.read_text()
    heads = [unescape(one) for one in re.findall(r"<h3>(.*?)</h3>", text)]
    assert {*ODD, "city"} <= set(heads)
    assert "<script>alert" not in text and "</script><b>" not in text
    titles = [
        "".join(layer["encoding"]["x"].get("title") or "")
        for one in specifications(text)
        for layer in one.get("layer", [])[:1]
        if "x" in layer["encoding"]
    ]
    assert {*ODD, "city"} <= set(titles)


def test_every_chart_has_words_of_its_own(page: Path) -> None:
    words = [one["description"] for one in specifications(page.read_text())]
    assert len(words) == len(set(words)) == 2 + 8 + 2 + 1 + 5
    assert [one for one in words if len(one) < 40] == []


def test_candidates_are_listed_where_there_are_any(page: Path, subject: Subject) -> None:
    text = page.read_text()
    assert '<section id="leaderboard">' in text
    assert '<th scope="row">a line &lt;&amp;&gt;</th><td>25.0%</td><td>–</td><td>0.0</td>' in text
    assert '<section id="leaderboard">' not in render_page(subject, [])


def test_a_model_without_a_history_has_no_section_on_training(
    subject: Subject, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert '<section id="training">' in render_page(subject, [])
    monkeypatch.setattr(subject.estimator, "history_", {})
    assert '<section id="training">' not in render_page(subject, [])


def test_without_altair_the_extra_is_named(subject: Subject, monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "vl_convert", None)
    with pytest.raises(MissingExtraError, match=r"online-laplace\[pages\]"):
        render_page(subject, [])


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("width", [390, 1200])
def test_it_can_be_read_in_a_browser(browser: Chrome, page: Path, width: int, dark: bool) -> None:
    open_page(browser, page, width=width, dark=dark)
    assert complaints(browser) == [] and fetched(browser) == []
    assert too_wide(browser) == []
    for selector in ("h1, h3, p, td, th", ".chart svg.marks .role-axis-title text"):
        found = contrasts(browser, selector)
        assert found and min(found) >= 4.5, selector
    titles = browser.find_elements(By.CSS_SELECTOR, ".chart svg.marks .role-axis-title text")
    assert any("true $price_^ (euros)" in title.text for title in titles)
    ticks = browser.find_elements(By.CSS_SELECTOR, "#predictions svg.marks .role-axis-label text")
    assert any(re.fullmatch(r"\d\d,000", tick.text) for tick in ticks)


def test_pointing_at_a_row_shows_its_numbers(browser: Chrome, page: Path) -> None:
    open_page(browser, page)
    dots = browser.find_elements(By.CSS_SELECTOR, "#predictions .mark-symbol path")
    assert len(dots) == 2 * 36
    ActionChains(browser).scroll_to_element(dots[0]).move_to_element(dots[0]).perform()
    tip = WebDriverWait(browser, 10).until(
        lambda driver: driver.find_element(By.CSS_SELECTOR, "#vg-tooltip-element.visible").text
    )
    assert "true value" in tip and "predicted" in tip and "95%" in tip


def test_a_page_of_classes_opens(browser: Chrome, of_classes: Subject, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    page.write_text(render_page(of_classes, []))
    open_page(browser, page, width=390, dark=True)
    assert complaints(browser) == [] and too_wide(browser) == []
    assert browser.find_element(By.ID, "confusion").is_displayed()
    browser.find_element(By.CSS_SELECTOR, "#confusion .numbers summary").send_keys("\n")
    assert "<down>" in browser.find_element(By.CSS_SELECTOR, "#confusion table").text
