"""Products with J, and its rows, through layers for which torch has not every kind of derivative."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from module_problems import batches, dense_ggn, jacobian, seeded
from online_laplace import OnlineLaplace
from online_laplace.modules.rows import directional, row_jacobian
from online_laplace.modules.view import ModuleView
from problems import normal


class Behind(nn.Module):
    """A layer, and a linear one behind its first result at the last position."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(4, 2)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.layer, nn.MultiheadAttention):
            return self.head(self.layer(x, x, x, need_weights=False)[0][:, -1])
        h = self.layer(x)
        h = h[0] if isinstance(h, tuple) else h
        return self.head(h if h.ndim == 2 else h[:, -1])


class Looking(nn.Linear):
    """A layer that looks at its values, as torch.func does not allow."""

    def forward(self, x: Tensor) -> Tensor:
        assert float(x.detach().abs().max()) >= 0
        return super().forward(x)


LAYERS = {
    "LSTM": lambda: nn.LSTM(4, 4, 2, batch_first=True),
    "GRU": lambda: nn.GRU(4, 4, batch_first=True),
    "RNN": lambda: nn.RNN(4, 4, batch_first=True),
    "attention": lambda: nn.MultiheadAttention(4, 2, batch_first=True),
    "transformer": lambda: nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True),
    "bag": lambda: nn.EmbeddingBag(6, 4),
    "sparse bag": lambda: nn.EmbeddingBag(6, 4, mode="sum", sparse=True),
    "sparse": lambda: nn.Embedding(6, 4, sparse=True),
    "looking": lambda: Looking(4, 4),
}


def problem(kind: str, n: int = 6, dtype: torch.dtype = torch.float64):
    module = seeded(lambda: Behind(LAYERS[kind]())).to(dtype)
    if isinstance(module.layer, (nn.Embedding, nn.EmbeddingBag)):
        x = torch.randint(0, 6, (n, 3), generator=torch.Generator().manual_seed(1))
    else:
        x = normal(n, 4, seed=1) if kind == "looking" else normal(n, 3, 4, seed=1)
    return module, x.to(dtype) if x.is_floating_point() else x, normal(n, 2, seed=2).to(dtype)


def dense(module: nn.Module, x: Tensor) -> Tensor:
    """J by a backward pass per row and output, of a copy whose gradients are not sparse."""
    for part in module.modules():
        if isinstance(part, (nn.Embedding, nn.EmbeddingBag)):
            part.sparse = False
    return jacobian(module, x)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("kind", LAYERS)
def test_products_and_rows_are_those_of_the_dense_jacobian(kind, dtype):
    module, x, _ = problem(kind, dtype=dtype)
    view = ModuleView(module)
    v = normal(view.d_w, seed=3).to(dtype)
    near = dict(rtol=1e-4, atol=1e-5) if dtype == torch.float32 else dict(rtol=1e-9, atol=1e-10)
    along = normal(6, 3, 2, seed=4).to(dtype)
    with torch.no_grad():
        product = directional(view, view.values(), x, v)
        again = directional(view, view.values(), x, v)  # by the way that is now known
        J, some = (row_jacobian(view, view.values(), x, given) for given in (None, along))
    J_dense = dense(module, x)
    torch.testing.assert_close(product, J_dense @ v, **near)
    assert torch.equal(product, again)
    torch.testing.assert_close(J, J_dense, **near)
    torch.testing.assert_close(some, along @ J_dense, **near)


@pytest.mark.parametrize("curvature", ["full", "block", "diagonal", "last-layer", "matrix-free", "subset"])
@pytest.mark.parametrize("kind", LAYERS)
def test_every_structure_looks_predicts_and_draws(kind, curvature):
    module, x, y = problem(kind)
    tuner = OnlineLaplace(
        module, "gaussian", n_data=6, curvature=curvature, normalisation="accept", seed=1
    )  # fmt: skip
    tuner.loss(x, y).backward()
    assert tuner.update_all([(x, y)]).evidence < 0
    posterior = tuner.posterior(batches(x, y, 4))
    assert (posterior.predict(x[:2]).variance > 0).all()
    assert posterior.predict(x[:2], draws=3).variance.shape == (2, 2)
    assert torch.isfinite(posterior.sample(x, 2, torch.Generator().manual_seed(0))).all()


@pytest.mark.parametrize("kind", ["LSTM", "bag", "sparse"])
def test_the_whole_curvature_is_the_dense_one(kind):
    module, x, y = problem(kind)
    tuner = OnlineLaplace(module, "gaussian", n_data=6, curvature="full", alpha=0.7)
    H = tuner.posterior(batches(x, y, 4)).H
    dense(module, x)
    G = dense_ggn(module, "gaussian", x, y)
    whole = G + 0.7 * torch.eye(len(G)).double()
    torch.testing.assert_close(H.log_contraction(), torch.logdet(whole / 0.7))


def test_rows_that_are_taken_one_by_one_are_told_of_once_with_the_layer(capsys):
    module, x, y = problem("looking")
    tuner = OnlineLaplace(module, "gaussian", n_data=6, curvature="full")
    tuner.update(x, y)
    tuner.update(x, y)
    said = capsys.readouterr().err
    assert said.count("through layer (Looking)") == 1 and "row by row, which is slow" in said


@pytest.mark.parametrize("kind", ["LSTM", "GRU", "RNN"])
def test_auto_takes_recurrent_layers(kind):
    module, x, y = problem(kind)
    tuner = OnlineLaplace(module, "gaussian", n_data=6)
    assert tuner.curvature == "full" and tuner.update(x, y).exact


def test_kron_takes_an_embedding_with_sparse_gradients():
    module, x, y = problem("sparse")
    tuner = OnlineLaplace(module, "gaussian", n_data=6, curvature="kron")
    tuner.update(x, y)
    assert (tuner.posterior([(x, y)]).predict(x).variance > 0).all()
    assert module.layer.sparse
