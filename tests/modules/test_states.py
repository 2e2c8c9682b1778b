"""A state is taken by the tuner of the same model, and refused by every other before anything is changed."""

from __future__ import annotations

import pytest
import torch

from module_problems import inputs_for, mlp, targets
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian
from online_laplace.errors import InputError
from online_laplace.modules import Cadence

EACH = Cadence(every=1)


def refused(message, load, state):
    with pytest.raises(InputError, match=message):
        load(state)


def tuner(module, likelihood="gaussian", curvature="full"):
    return OnlineLaplace(module, likelihood, n_data=20, curvature=curvature, cadence=EACH)


def state_of(one):
    x, y = inputs_for(one.model, 10), targets("gaussian", 10)
    one.update(x, y)
    return one.state_dict()


def test_a_state_that_lacks_something_is_refused():
    own = tuner(mlp(2))
    for name in (state := own.state_dict()):
        refused(f"it has no {name}", own.load_state_dict, {n: v for n, v in state.items() if n != name})
    refused("it is a NoneType", own.load_state_dict, None)
    refused("alpha is 1 precisions, not 4", own.load_state_dict, state | {"alpha": torch.ones(1)})


def test_the_state_of_another_likelihood_is_refused():
    state = state_of(tuner(mlp(2)))
    refused(r"its likelihood is Gaussian, not Poisson", tuner(mlp(2), "poisson").load_state_dict, state)
    tuner(mlp(2), Gaussian(2)).load_state_dict(state)  # by name or as a value, it is the same


@pytest.mark.parametrize("curvature", ["full", "kron", "diagonal"])
def test_the_state_of_a_network_of_another_width_is_refused(curvature):
    state = state_of(tuner(mlp(2, hidden=5), curvature=curvature))
    other = tuner(mlp(2, hidden=6), curvature=curvature)
    refused(r"its sizes are \[15, 5, 10, 2\], not \[18, 6, 12, 2\]", other.load_state_dict, state)
    assert other.looks == 0


def test_the_state_of_another_number_of_noise_precisions_is_refused():
    state = state_of(tuner(mlp(2), Gaussian(2, scales=2)))
    refused(r"beta is 2 precisions, not 1", tuner(mlp(2)).load_state_dict, state)
    again = tuner(mlp(2), Gaussian(2, scales=2))
    again.load_state_dict(state)
    assert torch.equal(again.beta, state["beta"])
