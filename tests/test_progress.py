"""Progress where nobody watches: lines in a log."""

from __future__ import annotations

from online_laplace import progress
from online_laplace.progress import Bars


def test_a_pipe_gets_lines_with_the_time_left(monkeypatch, capsys):
    now = iter([0.0, 5.0, 30.0, 31.0, 90.0, 200.0])
    monkeypatch.setattr(progress.time, "monotonic", lambda: next(now))
    with Bars() as bars:
        bar = bars.add("training", 10)
        for done in (0, 1, 4, 5, 6, 10):
            bar.update(done)
    assert capsys.readouterr().err.splitlines() == [
        "training: 4/10 steps, 0:00:30 so far, about 0:00:45 left",
        "training: 6/10 steps, 0:01:30 so far, about 0:01:00 left",
    ]


def test_quiet_is_quiet(monkeypatch, capsys):
    monkeypatch.setattr(progress, "PAUSE", 0.0)
    with Bars(quiet=True) as bars:
        bars.add("training", 10).update(3)
    assert capsys.readouterr().err == ""
