"""One tree of errors: what is caught by what, and that any of them can go to another process."""

from __future__ import annotations

import pickle
import pkgutil
from importlib import import_module

import pytest

import online_laplace
from online_laplace import errors
from online_laplace.estimators.values import UnreadableError
from online_laplace.files.atomic import StoreError

# What never leaves the package: they steer it, or are made into an InputError where the file is known.
INSIDE = {"DamagedFileError", "StoppedError", "_StoppedError"}


def defined() -> dict[str, type]:
    """Every kind of error that the package defines, by name."""
    found = {}
    for module in pkgutil.walk_packages(online_laplace.__path__, "online_laplace."):
        if module.name.endswith((".tiles", ".__main__")):  # for CUDA alone, and a program
            continue
        for value in vars(import_module(module.name)).values():
            if (
                isinstance(value, type)
                and issubclass(value, Exception)
                and "online_laplace" in value.__module__
            ):
                found[value.__name__] = value
    return found


def test_every_error_has_one_base_and_is_what_python_calls_it():
    outside = {name: kind for name, kind in defined().items() if name not in INSIDE}
    assert all(issubclass(kind, errors.OnlineLaplaceError) for kind in outside.values())
    assert all(name in errors.__doc__ for name in outside)
    for kind, builtin in (
        (errors.InputError, ValueError),
        (errors.SettingError, errors.InputError),
        (errors.UnknownNameError, errors.InputError),
        (StoreError, errors.InputError),
        (UnreadableError, TypeError),
        (errors.DivergedError, ArithmeticError),
        (errors.TrainingFailedError, errors.DivergedError),
        (errors.ProcessLostError, RuntimeError),
        (errors.MissingExtraError, ImportError),
    ):
        assert issubclass(kind, builtin)


@pytest.mark.parametrize(
    "error",
    [
        errors.InputError("words"),
        errors.SettingError("members", "must be at least 1"),
        errors.UnknownNameError("prior", "adr", ["ard", "scalar"]),
        errors.MissingExtraError("pandas", "tables"),
        errors.TrainingFailedError("none"),
    ],
)
def test_an_error_comes_out_of_another_process_as_it_was(error):
    again = pickle.loads(pickle.dumps(error))
    assert type(again) is type(error) and str(again) == str(error)
