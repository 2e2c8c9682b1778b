"""The report says what the records say, in both of its forms."""

from __future__ import annotations

import math
from html.parser import HTMLParser
from pathlib import Path

import pytest

from online_laplace.errors import InputError
from online_laplace.files.earlier import REPORT, is_earlier
from online_laplace.report import write_report
from online_laplace.report.claims import FAILS, HOLDS, Claim, Finding, check_claims
from online_laplace.report.content import _marks, _text, compose
from online_laplace.store.results import METHODS, Results, Spread, spread


class _Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        for name in ("src", "href"):
            if given.get(name):
                self.addresses.append(given[name] or "")


def test_the_page_needs_no_other_file_and_no_network(tiny_report: Path) -> None:
    page = _Page()
    page.feed((tiny_report / "report.html").read_text())
    assert page.addresses
    assert all(address.startswith(("#", "data:")) for address in page.addresses)


def test_both_forms_hold_every_number_claim_and_setting(tiny_results: Results, tiny_report: Path) -> None:
    report = compose(tiny_results, [])
    page, text = ((tiny_report / f"report.{kind}").read_text() for kind in ("html", "md"))
    assert len(report.grids) == 2 and len(report.further_grids) == 7
    assert page.index('id="claims"') < page.index('id="further-results"')
    assert text.index("## The paper's claims") < text.index("## More tables")
    for grid in (*report.grids, *report.further_grids):
        for _, cells in grid.rows:
            for cell in cells:
                assert cell.text in page
                assert cell.text in text
    for claim in report.claims:
        assert claim.verdict in text
        assert f"({len(claim.findings)} tables" not in text
    for name, _ in report.settings:
        assert f">{name}<" in page
        assert f"| {name} |" in text
    assert {"alpha", "learning rate", "split seed", "torch version", "hardware"} <= {
        name for name, _ in report.settings
    }


@pytest.mark.parametrize("name", ["report.md", "report.html"])
def test_notes_of_the_user_are_not_overwritten_by_a_report(
    name: str, tiny_results: Results, tiny_report: Path, tmp_path: Path
) -> None:
    assert all(is_earlier(tiny_report / one, REPORT) for one in ("report.md", "report.html"))
    (tmp_path / name).write_text("my notes")
    with pytest.raises(InputError, match=f"{name} exists and was not written by online-laplace: move it"):
        write_report(tiny_results, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_the_best_is_starred_and_only_means_within_its_standard_error_are_dotted() -> None:
    spreads = [
        Spread(1.0, 0.3, 10),
        Spread(1.2, 0.1, 10),
        Spread(1.1, 9.0, 10),
        Spread(math.nan, math.nan, 0),
    ]
    assert _marks(spreads, +1) == ["", "best", "close", ""]
    assert _marks(spreads, -1) == ["best", "close", "close", ""]
    assert _marks(spreads, 0) == [""] * 4


def test_a_standard_error_is_the_deviation_over_the_root_of_the_count() -> None:
    assert spread([1.0, 2.0, 3.0, math.nan]) == (2.0, pytest.approx(1 / math.sqrt(3)), 3)
    assert spread([5.0])[0] == 5.0
    assert math.isnan(spread([5.0]).error)


def test_no_standard_error_is_shown_as_zero_or_as_nothing() -> None:
    assert _text(Spread(0.98, 0.0, 10)) == "0.980" == _text(Spread(0.98, 1e-17, 10))
    assert _text(Spread(0.98, 0.0004, 10)) == "0.9800 ± 0.0004"
    assert _text(Spread(-12.5, 0.125, 10)) == "−12.50 ± 0.12"
    assert _text(Spread(5.0, math.nan, 1)) == "5.000"


def test_one_split_has_no_standard_error_to_judge_by(tiny_results: Results) -> None:
    header = {**tiny_results.header, "profile": {**tiny_results.header["profile"], "splits": 1}}
    first = [record for record in tiny_results.records if record["split"] == 0]
    arrays = {unit: held for unit, held in tiny_results.arrays.items() if unit.split == 0}
    report = compose(Results(header, first, arrays), [])
    judged = {claim.text: claim.verdict for claim in report.claims}
    assert judged["Offline training keeps up on yacht alone."] == "not tested"
    assert sum(verdict == "not tested" for verdict in judged.values()) == 2
    shown = [finding.value for claim in report.claims for finding in claim.findings] + report.summary
    shown += [cell.text for grid in report.grids for _, cells in grid.rows for cell in cells]
    assert not any("nan" in words or "1 splits" in words for words in shown)
    assert all("±" not in grid.note for grid in report.grids)


def test_a_verdict_counts_the_tables_that_disagree() -> None:
    def claim(*agrees: bool) -> Claim:
        return Claim("text", "statistic", [Finding(str(i), "", a) for i, a in enumerate(agrees)])

    assert claim(True, True).verdict == HOLDS
    assert claim(False, False).verdict == FAILS
    assert claim(True, False, False).verdict == "holds in part: 1 of 3 tables"
    assert claim().verdict == "not tested"


def test_the_bound_between_the_evidences_holds_in_every_look(tiny_results: Results) -> None:
    claim = check_claims(tiny_results)[0]
    assert "never exceeds" in claim.text
    assert claim.verdict == HOLDS


def test_a_claim_turns_with_the_numbers_it_is_judged_by(tiny_results: Results) -> None:
    place = next(c for c in check_claims(tiny_results) if "second best" in c.text)

    def shifted(by: float) -> Results:
        records = [
            {**r, "test_log_likelihood": r["test_log_likelihood"] + (by if r["procedure"] == "ol" else 0)}
            for r in tiny_results.records
        ]
        return Results(tiny_results.header, records, tiny_results.arrays)

    better = next(c for c in check_claims(shifted(+100.0)) if c.text == place.text)
    worse = next(c for c in check_claims(shifted(-100.0)) if c.text == place.text)
    assert (better.verdict, worse.verdict) == (HOLDS, FAILS)


def test_results_older_than_the_code_say_so(tiny_results: Results) -> None:
    header = {**tiny_results.header, "sources": {"train/adam.py": "0" * 16}}
    report = compose(Results(header, tiny_results.records, tiny_results.arrays), [])
    assert any("older than the code: train/adam.py" in warning for warning in report.warnings)
    assert not any("older" in warning for warning in compose(tiny_results, []).warnings)


def test_the_methods_of_the_comparison_are_four() -> None:
    assert [method.label for method in METHODS] == ["OL", "LM", "offline L_f", "offline L_h"]
