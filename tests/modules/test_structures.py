"""Every structure against its own dense matrix, from mini-batches."""

from __future__ import annotations

import math
from itertools import product

import pytest
import torch
from torch import nn

from module_problems import (
    OUTPUTS,
    Words,
    batches,
    convolutional,
    dense_ggn,
    inputs_for,
    jacobian,
    mlp,
    output_curvature,
    seeded,
    targets,
)  # fmt: skip
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian
from online_laplace.curvature.kronecker import Factors, KroneckerGGN
from online_laplace.errors import InputError
from online_laplace.modules import Cadence
from online_laplace.modules.jacobian import linearise, tangent_model
from online_laplace.modules.layers import _of_patches, _patches
from online_laplace.modules.structures import Probes
from problems import normal

CLOSE = dict(rtol=1e-9, atol=1e-9)
MODULES = {
    "mlp": mlp,
    "convolutional": convolutional,
    "words": lambda outputs: seeded(lambda: Words(outputs)),
}


def close(mine, theirs):
    torch.testing.assert_close(mine, theirs, **CLOSE)


def tuner_of(module, likelihood, n, curvature, **settings):
    return OnlineLaplace(
        module, likelihood, n_data=n, curvature=curvature, **{"alpha": 0.7, "beta": 1.3, **settings}
    )


def agree(H, G, alpha, groups, J, b):
    """All that a precision is asked for, against the dense G (d_w, d_w) at α by weight and β = 1.3."""
    whole = G + torch.diag(alpha)
    inverse = torch.linalg.inv(whole)
    close(H.solve(b), inverse @ b)
    close(H.log_contraction(), torch.logdet(whole) - alpha.log().sum())
    gamma = 1 - alpha * inverse.diagonal()
    close(H.group_gamma(), torch.stack([gamma[g].sum() for g in groups]))
    close(H.scale_gamma().sum(), gamma.sum())
    close(H.covariance(J), torch.einsum("nka,ab,nlb->nkl", J, inverse, J))
    flat = J.flatten(0, 1)
    close(H.joint_covariance(J), flat @ inverse @ flat.mT)
    assert not H.failed


def tensor_groups(module, names=None):
    """The positions of every tensor in the flat weights."""
    sizes = [p.numel() for n, p in module.named_parameters() if names is None or n in names]
    return [g.tolist() for g in torch.arange(sum(sizes)).split(sizes)]


def layer_groups(module):
    """The positions of every layer's tensors in the flat weights."""
    layers = [part for part in module.modules() if part._parameters]
    sizes = [sum(p.numel() for p in part.parameters()) for part in layers]
    return [g.tolist() for g in torch.arange(sum(sizes)).split(sizes)]


def alphas(tuner):
    values = 0.5 + torch.arange(len(tuner.hyper.alpha), dtype=torch.float64)
    tuner._learner.hyper = tuner.hyper.with_values(values, tuner.hyper.beta)
    return tuner.hyper.weight_precision


COMBINATIONS = [
    *(("mlp", likelihood) for likelihood in OUTPUTS), ("convolutional", "categorical"), ("words", "gaussian"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "likelihood"), COMBINATIONS)
@pytest.mark.parametrize("curvature", ["full", "block", "diagonal", "last-layer"])
def test_from_mini_batches_it_is_its_dense_matrix(kind, likelihood, curvature):
    module = MODULES[kind](OUTPUTS[likelihood])
    x, y = inputs_for(module, 11), targets(likelihood, 11)
    tuner = tuner_of(module, likelihood, 11, curvature)
    tuner.loss(x, y)
    alpha = alphas(tuner)
    posterior = tuner.posterior(batches(x, y, 4))
    names = tuner.view.names
    if curvature == "last-layer":
        last = [name for name, _ in module.named_parameters()][-2:]
        assert names == last
    G = float(tuner.beta) * dense_ggn(module, likelihood, x, y, names)
    G = torch.diag(G.diagonal()) if curvature == "diagonal" else G
    if curvature == "block":
        layers = torch.tensor([layer for layer, g in enumerate(layer_groups(module)) for _ in g])
        G = G * (layers.unsqueeze(0) == layers.unsqueeze(1))
    new = inputs_for(module, 3, seed=8)
    J = jacobian(module, new, names)
    agree(posterior.H, G, alpha, tensor_groups(module, names), J, normal(len(alpha), seed=3))
    f, covariance = posterior.outputs(new)
    close(f, module(new).detach())
    close(covariance, torch.einsum("nka,ab,nlb->nkl", J, torch.linalg.inv(G + torch.diag(alpha)), J))


def slow_kron(module, likelihood, x, y, names):
    """The Kronecker matrix in loops: the inputs and gradients of every row and position, one by one."""
    module.eval()
    curvature = output_curvature(module, likelihood, x, y)
    blocks = []
    for name in names:
        layer = module.get_submodule(name.rpartition(".")[0])
        seen = {}
        handle = layer.register_forward_hook(
            lambda _, given, out, seen=seen: (seen.update(a=given[0], out=out), out + 0)[1]
        )
        left, right, count, whole = 0.0, 0.0, 0, 0.0
        for row, target in zip(x, curvature, strict=True):
            f = module(row.unsqueeze(0))[0]
            # Λ = Q Qᵀ by its eigenvectors, where the whitening of the package is a formula
            values, vectors = torch.linalg.eigh(target)
            columns = vectors * values.clamp(min=0).sqrt()
            grads = [
                torch.autograd.grad(f, seen["out"], column, retain_graph=True)[0][0] for column in columns.mT
            ]
            a = seen["a"][0].detach()
            if isinstance(layer, nn.Conv2d):
                a, grads = patches(layer, a), [g.flatten(1).mT for g in grads]  # positions first
            elif isinstance(layer, nn.Embedding):
                a = torch.eye(layer.num_embeddings, dtype=torch.float64)[a]
                a[:, 0] = 0  # the padding index has no gradient
            a = a.reshape(-1, a.shape[-1])
            count += len(a)
            right = right + sum(torch.outer(one, one) for one in a)
            for g in grads:
                g = g.reshape(len(a), -1)
                left = left + sum(torch.outer(one, one) for one in g)
                whole = whole + torch.outer(g.sum(0), g.sum(0))
        handle.remove()
        if name.endswith("bias"):
            blocks.append(whole)
        elif isinstance(layer, nn.Embedding):
            blocks.append(torch.kron(right, left) / count)
        else:
            blocks.append(torch.kron(left, right) / count)
    return torch.block_diag(*blocks)


def patches(layer, a):
    """Inputs of a convolution at every position, one at a time: the gradient of its output by its weights."""
    weight = torch.zeros(1, *layer.weight.shape[1:], dtype=torch.float64, requires_grad=True)
    out = nn.functional.conv2d(
        a.unsqueeze(0), weight, None, layer.stride, layer.padding, layer.dilation
    ).flatten()
    rows = [torch.autograd.grad(one, weight, retain_graph=True)[0].flatten() for one in out]
    return torch.stack(rows)


@pytest.mark.parametrize(("kind", "likelihood"), COMBINATIONS)
def test_kronecker_factors_of_mini_batches_are_their_dense_matrix(kind, likelihood):
    module = MODULES[kind](OUTPUTS[likelihood])
    x, y = inputs_for(module, 7), targets(likelihood, 7)
    tuner = tuner_of(module, likelihood, 7, "kron")
    tuner.loss(x, y)
    alpha = alphas(tuner)
    H = tuner.posterior(batches(x, y, 3)).H
    assert not H.exact
    G = float(tuner.beta) * slow_kron(module, likelihood, x, y, tuner.view.names)
    J = jacobian(module, inputs_for(module, 3, seed=8))
    agree(H, G, alpha, tensor_groups(module), J, normal(len(alpha), seed=3))
    drawn = H.sample(60_000, torch.Generator().manual_seed(0))
    whitened = torch.linalg.cholesky(G + torch.diag(alpha)).mT @ drawn.mT
    assert (torch.cov(whitened) - torch.eye(len(alpha))).abs().max() < 0.04


@pytest.mark.parametrize("likelihood", ["gaussian", "bernoulli"])
def test_of_one_row_and_one_output_kronecker_factors_are_each_tensors_whole_block(likelihood):
    module = mlp(1)
    x = inputs_for(module, 1)
    y = torch.ones(1, 1, dtype=torch.float64)
    tuner = tuner_of(module, likelihood, 1, "kron")
    H = tuner.posterior([(x, y)]).H
    G = float(tuner.beta) * dense_ggn(module, likelihood, x, y)
    own = torch.block_diag(*(G[g][:, g] for g in tensor_groups(module)))
    alpha = tuner.hyper.weight_precision
    agree(H, own, alpha, tensor_groups(module), jacobian(module, inputs_for(module, 3, 8)), alpha)


def test_a_bias_has_its_whole_block_at_any_number_of_rows_and_positions():
    module = convolutional(3)
    x, y = inputs_for(module, 6), targets("categorical", 6)
    tuner = tuner_of(module, "categorical", 6, "kron", prior="scalar")
    blocks = tuner.posterior([(x, y)]).H
    G = dense_ggn(module, "categorical", x, y)
    for t, (name, g) in enumerate(zip(tuner.view.names, tensor_groups(module), strict=True)):
        if name.endswith("bias"):
            U, values = blocks.basis[t].left, blocks.data[t].flatten()  # the input's side is one
            close(U @ torch.diag(values) @ U.mT, G[g][:, g])


@pytest.mark.parametrize("curvature", ["kron", "diagonal"])
@pytest.mark.parametrize("likelihood", ["gaussian", "categorical"])
def test_random_signs_estimate_the_sum_over_outputs_without_bias(curvature, likelihood, monkeypatch):
    module, k = mlp(OUTPUTS[likelihood]), OUTPUTS[likelihood]
    x, y = inputs_for(module, 2), targets(likelihood, 2)
    whole = tuner_of(module, likelihood, 2, curvature, probes=None)
    _, exact = whole._observer.look(whole.view.values(), x, y, whole.probes)
    # The mean over all signs that two rows can get is the expectation.
    patterns = [torch.tensor(signs).double().view(2, k) for signs in product((-1, 1), repeat=2 * k)]
    given = iter(patterns)
    monkeypatch.setattr(Probes, "signs", lambda self, like: next(given))
    rough = tuner_of(module, likelihood, 2, curvature, probes=len(patterns))
    _, sums = rough._observer.look(rough.view.values(), x, y, rough.probes)
    assert next(given, None) is None
    for name, value in _tensors(exact).items():
        close(_tensors(sums)[name], value)


@pytest.mark.parametrize("size", [8, 12, 16])
def test_some_positions_of_a_convolution_stand_for_all_without_bias(size):
    layer = seeded(lambda: nn.Conv2d(2, 3, 3, padding=1, stride=1))
    a = nn.functional.pad(normal(4, 2, size, size, seed=1), (1, 1, 1, 1))
    whole, steps = _of_patches(layer, a, None), size // 4
    starts = [(step + 0.5) / steps for step in range(steps)]
    parts = [_of_patches(layer, a, offset) for offset in product(starts, repeat=2)]
    close(sum(parts) / len(parts), whole)
    assert all((part - whole).abs().max() > 0.01 for part in parts)
    small = nn.functional.pad(normal(4, 2, 7, 7, seed=1), (1, 1, 1, 1))
    close(_of_patches(layer, small, (0.9, 0.9)), _of_patches(layer, small, None))


def test_signs_are_balanced_and_repeat_with_the_seed():
    one, other = (Probes(1, torch.Generator().manual_seed(3)) for _ in range(2))
    signs = one.signs(torch.empty(100, 40))
    assert set(signs.unique().tolist()) == {-1.0, 1.0} and abs(signs.mean()) < 0.05
    assert torch.equal(signs, other.signs(torch.empty(100, 40)))


def _tensors(sums):
    return {name: value for name, value in sums.state().items() if torch.is_tensor(value)}


def test_a_noise_precision_per_output_divides_the_diagonal_by_output_and_is_refused_by_kron_and_block():
    module, x = mlp(2), inputs_for(mlp(2), 9)
    y = targets("gaussian", 9)
    tuner = tuner_of(module, Gaussian(2, scales=2), 9, "diagonal", probes=None)
    tuner.loss(x, y)
    tuner._learner.hyper = tuner.hyper.with_values(tuner.hyper.alpha, torch.tensor([0.5, 2.0]).double())
    H = tuner.posterior(batches(x, y, 4)).H
    J = jacobian(module, x)
    close(H.h, torch.einsum("nka,k->a", J.square(), tuner.beta) + tuner.hyper.weight_precision)
    for curvature in ("kron", "block", "matrix-free", "sampling", "subset"):
        with pytest.raises(
            InputError, match=r"one noise precision, and there are 2: .* full, diagonal or last"
        ):
            tuner_of(module, Gaussian(2, scales=2), 9, curvature)
    for curvature in ("full", "diagonal", "last-layer"):
        tuner_of(module, Gaussian(2, scales=2), 9, curvature).posterior([(x, y)])


def test_products_with_the_jacobian_are_those_with_the_dense_one():
    module = convolutional(3)
    x, y = inputs_for(module, 4), targets("categorical", 4)
    tuner = tuner_of(module, "categorical", 4, "full")
    tuner.loss(x, y)
    J = linearise(tuner.view, tuner.view.values(), x)
    tangent = tangent_model(J, torch.eye(3).double()[y], tuner._observer.likelihood)
    white = tangent.local.root.mT @ jacobian(module, x)
    v, u = normal(tuner.view.d_w, seed=1), normal(4, 3, seed=2)
    close(tangent.J.jvp(v), white @ v)
    close(tangent.J.vjp(u), torch.einsum("nka,nk->a", white, u))
    close(tangent.J.squares(1), white.square().sum((0, 1)).unsqueeze(0))


def test_an_old_shape_is_exact_for_the_factors_it_came_from_and_keeps_the_trace_of_others():
    module = mlp(2)
    x, y = inputs_for(module, 20), targets("gaussian", 20)
    tuner = tuner_of(module, "gaussian", 20, "kron", probes=None)
    look = tuner._observer.look
    _, first = look(tuner.view.values(), x[:10], y[:10], tuner.probes)
    _, second = look(tuner.view.values(), x[10:], y[10:], tuner.probes)
    shapes = first.ggn.shapes()

    def eigenvalues(ggn):
        k = ggn.evidence(tuner.hyper, shapes).k
        scale = tuner.hyper.alpha / tuner.hyper.beta
        return [a * row[: int(n.sum())] for a, row, n in zip(scale, *k, strict=True)]

    for found, own in zip(eigenvalues(first.ggn), first.ggn.at(tuner.hyper).values, strict=True):
        close(found, own.flatten().sort(descending=True).values)
    for found, own in zip(eigenvalues(second.ggn), second.ggn.at(tuner.hyper).values, strict=True):
        close(found.sum(), own.sum())
    own = second.ggn.at(tuner.hyper).values[0].flatten().sort(descending=True).values
    assert (eigenvalues(second.ggn)[0] - own).abs().max() > 1e-3


@pytest.mark.parametrize("curvature", ["full", "block", "kron", "diagonal"])
def test_batches_that_add_up_over_an_epoch_update_as_all_rows_at_once(curvature):
    module = mlp(2)
    x, y = inputs_for(module, 12), targets("gaussian", 12)
    whole = tuner_of(module, "gaussian", 12, curvature, probes=None)
    parts = tuner_of(
        module,
        "gaussian",
        12,
        curvature,
        probes=None,
        cadence=Cadence(every=1, decay=1.0, refresh=1, limit=math.inf),
    )
    at_once = whole.update(x, y)
    done = [parts.update(*batch) for batch in batches(x, y, 5)]
    assert done[:2] == [None, None] and done[2].rows == 12
    close(parts.hyper.alpha, whole.hyper.alpha)
    close(parts.beta, whole.beta)
    assert done[2].evidence == pytest.approx(at_once.evidence, rel=1e-9)
    assert not done[2].exact and at_once.exact == (curvature == "full")
    assert parts.update(x[:5], y[:5]) is None  # the next epoch begins anew


def test_what_decays_is_a_weighted_sum_of_the_batches():
    module = mlp(1)
    x = inputs_for(module, 30)
    y = normal(30, 1, seed=6)
    cadence = Cadence(every=2, decay=0.5, refresh=1, limit=math.inf)
    tuner = tuner_of(module, "gaussian", 30, "full", cadence=cadence, prior="scalar")
    seen = [tuner.update(*batch) for batch in batches(x, y, 5)]
    assert [done is not None for done in seen] == [False, True] * 3
    assert seen[-1].rows == 5 * (1 + 0.5 + 0.25)
    # the last update, densely: weights 1, ½, ¼ from the newest look to the oldest, scaled to 30 rows
    hyper = OnlineLaplace(module, "gaussian", n_data=30, curvature="full", prior="scalar").hyper
    alpha, beta = seen[3].alpha["all"], seen[3].beta[0]
    assert alpha != float(hyper.alpha)
    parts, scale = [slice(25, 30), slice(15, 20), slice(5, 10)], 30 / 8.75
    G = sum(c * dense_ggn(module, "gaussian", x[p], y[p]) for c, p in zip((1, 0.5, 0.25), parts, strict=True))
    H = beta * scale * G + alpha * torch.eye(len(G), dtype=torch.float64)
    gamma = len(G) - alpha * torch.linalg.inv(H).trace()
    w = torch.cat([p.detach().flatten() for p in module.parameters()])
    error = (y - module(x).detach()).square()
    misfit = scale * sum(c * error[p].sum() for c, p in zip((1, 0.5, 0.25), parts, strict=True))
    close(tuner.hyper.alpha, (gamma / w.square().sum()).reshape(1))
    close(tuner.beta, ((30 - gamma) / misfit).reshape(1))


def test_a_routine_that_leaves_nan_in_single_precision_is_asked_again_in_double(monkeypatch):
    factor, asked = torch.diag(torch.tensor([3.0, 1.0])), []

    def routine(A):
        asked.append(A.dtype)
        values = torch.tensor([1.0, 3.0], dtype=A.dtype).expand(A.shape[:-1])
        return values if A.dtype == torch.float64 else values * torch.nan

    monkeypatch.setattr(torch.linalg, "eigvalsh", routine)
    shapes = KroneckerGGN([Factors(factor, torch.ones(1), torch.ones(()))]).shapes()
    assert asked == [torch.float32, torch.float64]
    close(shapes.values, torch.tensor([[0.75, 0.25]]))


@pytest.mark.parametrize("size", [(3, 3), (2, 3)])
@pytest.mark.parametrize("stride", [(1, 1), (2, 1), (4, 3)])
@pytest.mark.parametrize("dilation", [(1, 1), (2, 3)])
def test_patches_are_those_that_a_convolution_multiplies(size, stride, dilation):
    layer = nn.Conv2d(3, 4, size, stride, dilation=dilation, bias=False).double()
    image = normal(2, 3, 11, 10, seed=0)
    patches = _patches(image, layer, stride)
    outputs = layer(image)
    found = (patches @ layer.weight.flatten(1).mT).unflatten(0, (2, -1)).mT.reshape(outputs.shape)
    torch.testing.assert_close(found, outputs)
