"""The structure that a module gets by itself is said before it is made; what would not fit is refused."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from module_problems import mlp
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian
from online_laplace.errors import InputError
from online_laplace.modules import size
from online_laplace.modules.size import in_words, needed_bytes
from online_laplace.modules.view import ModuleView


def chosen(module, capsys, **settings):
    tuner = OnlineLaplace(module, "gaussian", n_data=8, **settings)
    return tuner.curvature, capsys.readouterr().err


def test_it_is_full_for_few_weights_and_kron_for_many(capsys):
    name, said = chosen(mlp(1), capsys)
    assert name == "full"
    assert said.startswith("curvature: full, about 15 KiB of memory. 21 weights are few enough")
    name, said = chosen(mlp(1, hidden=600), capsys)
    assert name == "kron"
    assert "curvature: kron, about" in said and "3,001 weights are more than the 2,000" in said


def test_it_is_diagonal_where_kron_does_not_know_a_layer_which_is_named(capsys):
    module = nn.Sequential(nn.Conv1d(3, 50, 20), nn.Flatten(), nn.Linear(50, 1))
    name, said = chosen(module, capsys)
    assert name == "diagonal" and "not kron, since kron" in said and "0.weight belongs to Conv1d" in said


def test_it_is_the_last_layer_where_normalisation_stands_in_the_way_of_the_others(capsys):
    module = nn.Sequential(nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1))
    name, said = chosen(module, capsys)
    assert name == "last-layer" and "not full, since 1 (LayerNorm) makes the outputs independent" in said
    assert chosen(module, capsys, mean="mode")[0] == "full"


def test_it_is_a_structure_that_knows_a_noise_for_each_output(capsys):
    tuner = OnlineLaplace(mlp(2, hidden=600), Gaussian(2, scales=2), n_data=8)
    assert tuner.curvature == "diagonal"
    assert (
        "not kron, since kron curvature is for one noise precision, and there are 2"
        in capsys.readouterr().err
    )


def test_what_would_not_fit_is_refused_with_what_would():
    # A module without numbers: the sizes are those of a network of 10⁸ weights.
    with torch.device("meta"):
        module = nn.Sequential(nn.Linear(10_000, 9_999), nn.Linear(9_999, 10))
    with pytest.raises(InputError, match=r"full curvature of 100,\d+,\d+ weights .* 145,\d+ TiB"):
        size.check_fits("full", ModuleView(module))


def test_memory_is_that_of_the_numbers_held(monkeypatch):
    module = mlp(2, inputs=3, hidden=4)  # 3 → 4 → 2: tensors (4, 3), (4), (2, 4), (2)
    view = ModuleView(module)
    factors = (3**2 + 4**2) + 4**2 + (4**2 + 2**2) + 2**2
    assert needed_bytes("kron", view) == 8 * (size.VECTORS * 26 + size.FACTORS * factors)
    assert needed_bytes("diagonal", view) == 8 * size.VECTORS * 26
    assert needed_bytes("full", view) == 8 * (size.MATRICES * 26**2 + size.VECTORS * 26)
    monkeypatch.setattr(size, "memory_of", lambda device: 10_000)
    with pytest.raises(
        InputError,
        match=r"70% of the 9.8 KiB that there are may be taken; these would fit: kron \(3.2 KiB\), diagonal",
    ):
        OnlineLaplace(module, "gaussian", n_data=8, curvature="full")
    monkeypatch.setattr(size, "memory_of", lambda device: 100)
    with pytest.raises(InputError, match=r"no structure of curvature will do: not full, since"):
        OnlineLaplace(module, "gaussian", n_data=8)


def test_bytes_in_words():
    assert [in_words(n) for n in (12, 2048, 1.5 * 2**20, 3 * 2**40)] == [
        "12 B",
        "2.0 KiB",
        "1.5 MiB",
        "3.0 TiB",
    ]
