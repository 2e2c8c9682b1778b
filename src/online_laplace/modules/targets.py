"""Likelihoods by name, and a loader's targets in the shape and dtype that they take."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, one_hot

from online_laplace.errors import InputError, known_name
from online_laplace.likelihood import Bernoulli, Categorical, Gaussian, Likelihood, Poisson
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import weighted

# By how much probabilities of classes in single precision may miss 1 together.
ROUNDING = 1e-4

# What other libraries call them.
ELSEWHERE = {
    "classification": "'categorical', or 'bernoulli' for one output",
    "regression": "'gaussian'",
}

LIKELIHOODS = ("gaussian", "categorical", "bernoulli", "poisson")


def likelihood_of(choice: str | Likelihood, outputs: int) -> Likelihood:
    """The likelihood of a name, or the one given, for so many outputs. Raises InputError for a misfit."""
    if not isinstance(choice, str):
        found = choice
    elif choice == "bernoulli":
        found = Bernoulli()
    elif choice == "categorical":
        if outputs < 2:
            raise InputError(
                "the categorical likelihood needs an output for each of at least two classes, but the module "
                "has one output: use likelihood='bernoulli', or one output per class"
            )
        # The posterior's covariance makes probabilities timid even where it is exact (benchmarks/digits.py).
        found = Categorical(outputs, form="plug-in")
    else:
        found = Gaussian(outputs) if choice == "gaussian" else Poisson(outputs)
    if found.outputs != outputs:
        raise InputError(
            f"the {type(found).__name__} likelihood needs {found.outputs} output"
            f"{'' if found.outputs == 1 else 's'}, but the module has {outputs}"
        )
    return found


def check_likelihood(choice: str | Likelihood, module: nn.Module) -> None:
    """Refuse an unknown name, and named outputs that share tensors, which are the groups, with the others."""
    if isinstance(choice, str):
        if choice in ELSEWHERE:
            raise InputError(f"unknown likelihood {choice!r}: it is called {ELSEWHERE[choice]} here")
        known_name("likelihood", choice, LIKELIHOODS)
    elif isinstance(choice, type):
        raise InputError(
            f"likelihood must be a value, and {choice.__name__} is a class: call it with its settings, such "
            f"as Gaussian(2) for two outputs, or use one of {', '.join(LIKELIHOODS)}"
        )
    elif not hasattr(choice, "heads"):
        named = ", ".join(LIKELIHOODS)
        raise InputError(f"likelihood must be one of {named}, or a Likelihood of the core, not {choice!r}")
    elif any(choice.heads) and (shared := _last_of_all(module, choice.outputs)):
        raise InputError(
            f"the {next(filter(None, choice.heads))} of {type(choice).__name__} needs precisions of its own, "
            f"and {shared} belongs to it and to the other outputs: give it a layer of its own, as in "
            "torch.cat([self.mean(h), self.noise(h)], -1)"
        )


def kind_of(choice: str | Likelihood) -> tuple[str, int]:
    """The name of a likelihood's kind, however it was chosen, and how many precisions β it learns."""
    found = likelihood_of(choice, 1 if choice == "bernoulli" else 2) if isinstance(choice, str) else choice
    return type(found).__name__, found.scales


def heads_of(choice: str | Likelihood) -> int:
    """How many outputs there are where they are of different kinds, else 1."""
    return choice.outputs if not isinstance(choice, str) and any(choice.heads) else 1


def _last_of_all(module: nn.Module, outputs: int) -> str | None:
    """The last trainable matrix, if it has a row for each of so many outputs."""
    *_, (name, last) = ((n, p) for n, p in module.named_parameters() if p.requires_grad and p.ndim > 1)
    return name if last.shape[0] == outputs else None


def as_targets(likelihood: Likelihood, y: object, f: Tensor, *, look: bool = True) -> Tensor:
    """y as (rows, targets) in the dtype and on the device of f (rows, outputs).

    Classes may be numbers (rows,) or columns of ones (rows, classes). Raises InputError for anything else;
    for values that cannot be only where it may `look` at them, for which an accelerator must wait.
    """
    if not isinstance(y, Tensor):
        raise InputError(f"targets must be a tensor, not {type(y).__name__}")
    y, given = y.to(f.device), (str(y.dtype).removeprefix("torch."), tuple(y.shape))
    rows, wanted = f.shape[0], likelihood.targets
    if _are_numbers(likelihood, y):
        if look and len(y) == rows:
            _check_numbers(y, wanted)
        y = one_hot(y.long(), wanted)
    y = y.unsqueeze(-1) if y.ndim == 1 else y
    if y.shape != (rows, wanted):
        classes = ", or the numbers of the classes as integers of shape "
        raise InputError(
            f"the {type(likelihood).__name__} likelihood needs targets of shape ({rows}, {wanted})"
            f"{f'{classes}({rows},)' if isinstance(likelihood, Categorical) else ''} for outputs "
            f"{tuple(f.shape)}, but they are {given[0]} of shape {given[1]}"
        )
    y = y.to(f.dtype)
    if not look:
        return y
    if not torch.isfinite(y).all():
        raise InputError("targets must be finite numbers")
    if isinstance(likelihood, (Bernoulli, Categorical)) and not ((y >= 0) & (y <= 1)).all():
        raise InputError("the indicator of a class must be from 0 to 1")
    if isinstance(likelihood, Categorical) and (off := (y.sum(-1) - 1).abs() > ROUNDING).any():
        raise InputError(
            f"the indicators of a row's classes must sum to 1, and in row {int(off.nonzero()[0])} they sum "
            f"to {float(y[off][0].sum()):.3g}: give the number of its class, or a one in the column of that"
        )
    if isinstance(likelihood, Poisson) and not ((y >= 0) & (y == y.round())).all():
        raise InputError("counts must be 0 or more, and whole: for other numbers use likelihood='gaussian'")
    return y


def data_loss(likelihood: Likelihood, f: Tensor, y: object, hyper: Hyper, *, look: bool = True) -> Tensor:
    """−log p(y | f) at outputs f (rows, outputs), summed over rows: (). Targets are as for `as_targets`."""
    if isinstance(y, Tensor) and _are_numbers(likelihood, y) and len(y) == len(f):
        y = y.to(f.device)
        if look:
            _check_numbers(y, likelihood.targets)
        return cross_entropy(
            f, y.long(), reduction="sum"
        )  # no columns for classes, of which there may be many
    y = as_targets(likelihood, y, f, look=look)
    if isinstance(likelihood, Categorical):  # without the second-order view, k numbers a row and not k²
        return -(y * f.log_softmax(-1)).sum()
    loss = weighted(hyper, likelihood.local(f, y).total(len(hyper.beta)))
    return loss - likelihood.log_normaliser(hyper.beta, f.shape[0])


def _are_numbers(likelihood: Likelihood, y: Tensor) -> bool:
    """Whether these are classes by their numbers, one a row."""
    return isinstance(likelihood, Categorical) and y.ndim == 1 and not y.is_floating_point()


def _check_numbers(y: Tensor, classes: int) -> None:
    if not ((y >= 0) & (y < classes)).all():
        raise InputError(
            f"classes must be numbers from 0 to {classes - 1}, as the module has {classes} outputs; got "
            f"{int(y.min())} to {int(y.max())}"
        )
