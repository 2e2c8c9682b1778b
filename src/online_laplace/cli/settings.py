"""The estimators that the options of `fit` ask for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from online_laplace.errors import InputError

if TYPE_CHECKING:
    import pandas as pd

    from online_laplace.tables.task import Task


def told(options: Mapping[str, Any]) -> list[str]:
    """The names of those options that the call has."""
    return [name for name, value in options.items() if value is not None]


def check_time_limit(network: Mapping[str, Any], time_limit: float | None) -> None:
    """Refuse a limit of time for a network that is named. Raises InputError."""
    named = [f"--{name}" for name in told(network)]
    if named and time_limit is not None:
        verb = "names" if len(named) == 1 else "name"
        raise InputError(
            f"--time-limit is for a preset, which chooses the networks, and {', '.join(named)} {verb} one: "
            f"leave out {' and '.join(named)}, or give --steps instead of --time-limit"
        )


@dataclass(frozen=True)
class Estimators:
    """What may be fitted, by task, settings checked: which it will be is known once the table is read.

    `task` is what was asked for, `of_numbers` and `of_classes` are options by name.
    """

    task: str
    of_numbers: Mapping[str, Any]
    of_classes: Mapping[str, Any]
    by_task: Mapping[str, Any]

    @classmethod
    def of(
        cls,
        task: str,
        shared: Mapping[str, Any],
        of_numbers: Mapping[str, Any],
        of_classes: Mapping[str, Any],
    ) -> Estimators:
        """Those that the options allow. Raises InputError."""
        tasks = ["regression", "classification"] if task == "auto" else [task]
        if task == "auto" and told(of_numbers):
            tasks.remove("classification")
        if task == "auto" and told(of_classes):
            tasks.remove("regression")
        if not tasks:
            numbers, classes = (
                ", ".join(f"--{name}" for name in told(one)) for one in (of_numbers, of_classes)
            )
            raise InputError(f"{numbers} is of numbers and {classes} of classes: leave one of them out")
        by_task = {name: _estimator_of(name, shared, of_numbers, of_classes) for name in tasks}
        return cls(task, of_numbers, of_classes, by_task)

    def check_size(self, rows: int, columns: int) -> None:
        """Refuse rows that would not fit in memory, whatever the task. Raises InputError."""
        refused = []
        for one in self.by_task.values():
            try:
                one.check_size(rows, columns)
            except InputError as error:
                refused.append(error)
        if len(refused) == len(self.by_task):
            raise refused[0]

    def decide(self, frame: pd.DataFrame, target: str, decimal: str | None) -> Task:
        """The task that the target has, if it is one of these. Raises InputError."""
        from online_laplace.tables.task import check_counts, decide_task

        # With --task regression an option of classes would be refused.
        otherwise = f"leave --{options[0]} out" if (options := told(self.of_classes)) else "--task regression"
        wanted = self.task if len(self.by_task) > 1 else next(iter(self.by_task))
        decided = decide_task(frame, target, wanted, otherwise, decimal)
        if self.task == "counts" or self.of_numbers["likelihood"] == "poisson":
            check_counts(frame, target, "--task counts" if self.task == "counts" else "--likelihood poisson")
        return decided


def _estimator_of(
    task: str, shared: Mapping[str, Any], of_numbers: Mapping[str, Any], of_classes: Mapping[str, Any]
) -> Any:
    """The estimator of a task, its settings checked. Raises InputError."""
    # Imported here so that `--help` does not wait for torch.
    from online_laplace.estimators import OnlineLaplaceClassifier, OnlineLaplaceRegressor

    classes = task == "classification"
    other, own = (of_numbers, dict(of_classes)) if classes else (of_classes, dict(of_numbers))
    if wrong := told(other):
        raise InputError(f"--{wrong[0]} is not for {'classes' if classes else 'numbers'}: leave it out")
    if task == "counts":
        if own["likelihood"] not in (None, "poisson"):
            raise InputError(f"--task counts has the likelihood poisson, not {own['likelihood']}")
        own["likelihood"] = "poisson"
    kind = OnlineLaplaceClassifier if classes else OnlineLaplaceRegressor
    estimator = kind(**shared, **{name: own[name] for name in told(own)})
    estimator.check_settings()
    return estimator
