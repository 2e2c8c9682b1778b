"""Small modules for the tests, and a slow account of their curvature: loops, autograd, densities of torch."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch import distributions as dist
from torch.func import jacrev
from torch.nn.functional import one_hot

from problems import normal

OUTPUTS = {"gaussian": 2, "categorical": 3, "bernoulli": 1, "poisson": 2}


def seeded(make: Callable[[], nn.Module], seed: int = 0) -> nn.Module:
    """A module in float64 whose weights come from a seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return make().double()


def mlp(outputs: int, *, inputs: int = 3, hidden: int = 4, seed: int = 0) -> nn.Module:
    return seeded(
        lambda: nn.Sequential(nn.Linear(inputs, hidden), nn.Tanh(), nn.Linear(hidden, outputs)), seed
    )


def convolutional(outputs: int, seed: int = 0) -> nn.Module:
    """Two convolutions with padding, stride and dilation, changed in place on the way, and a linear layer."""
    return seeded(
        lambda: nn.Sequential(
            nn.Conv2d(2, 3, 3, padding=1, stride=2),
            nn.ReLU(inplace=True),
            nn.Conv2d(3, 2, 2, padding="same", dilation=2, bias=False),
            nn.Tanh(),
            nn.Flatten(),
            nn.Linear(2 * 3 * 3, outputs),
        ),
        seed,
    )


class Words(nn.Module):
    """An embedding with a padding index, a linear layer at every position, and their mean."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(6, 3, padding_idx=0)
        self.layer = nn.Linear(3, 4)
        self.head = nn.Linear(4, outputs)

    def forward(self, words: Tensor) -> Tensor:
        return self.head(torch.tanh(self.layer(self.embedding(words))).mean(1))


def inputs_for(module: nn.Module, n: int, seed: int = 5) -> Tensor:
    if isinstance(module, Words):
        return torch.randint(0, 6, (n, 4), generator=torch.Generator().manual_seed(seed))
    first = next(part for part in module.modules() if isinstance(part, (nn.Conv2d, nn.Linear)))
    shape = (n, 2, 6, 6) if isinstance(first, nn.Conv2d) else (n, first.in_features)
    return normal(*shape, seed=seed)


def targets(likelihood: str, n: int, seed: int = 6) -> Tensor:
    """As a loader would give them."""
    k = OUTPUTS[likelihood]
    generator = torch.Generator().manual_seed(seed)
    if likelihood == "categorical":
        return torch.randint(0, k, (n,), generator=generator)
    if likelihood == "bernoulli":
        return torch.randint(0, 2, (n,), generator=generator)
    if likelihood == "poisson":
        return torch.poisson(torch.full((n, k), 2.0, dtype=torch.float64), generator=generator)
    return normal(n, k, seed=seed)


def minus_log_p(likelihood: str, f: Tensor, y: Tensor) -> Tensor:
    """One row's −log p at β = 1 with every constant."""
    density = {
        "gaussian": lambda: dist.Normal(f, 1.0),
        "categorical": lambda: dist.Categorical(logits=f),
        "bernoulli": lambda: dist.Bernoulli(logits=f),
        "poisson": lambda: dist.Poisson(f.exp()),
    }[likelihood]()
    return -density.log_prob(y.to(f) if likelihood != "categorical" else y).sum()


def parameters(module: nn.Module, names: list[str] | None = None) -> list[nn.Parameter]:
    return [
        p for name, p in module.named_parameters() if p.requires_grad and (names is None or name in names)
    ]


def jacobian(module: nn.Module, x: Tensor, names: list[str] | None = None) -> Tensor:
    """J (n, k, d_w) by a backward pass per row and output, in eval mode."""
    training = module.training
    module.eval()
    rows = []
    for row in x:
        f = module(row.unsqueeze(0))[0]
        each = [
            torch.autograd.grad(one, parameters(module, names), retain_graph=True, materialize_grads=True)
            for one in f
        ]
        rows.append(torch.stack([torch.cat([g.reshape(-1) for g in grads]) for grads in each]))
    module.train(training)
    return torch.stack(rows)


def output_curvature(module: nn.Module, likelihood: str, x: Tensor, y: Tensor) -> Tensor:
    """The Hessian of −log p in the outputs, row by row: (n, k, k)."""
    training = module.training
    module.eval()
    f = module(x).detach()
    module.train(training)
    return torch.stack(
        [
            jacrev(jacrev(lambda g, target=target: minus_log_p(likelihood, g, target)))(one)
            for one, target in zip(f, y, strict=True)
        ]
    )


def dense_ggn(
    module: nn.Module, likelihood: str, x: Tensor, y: Tensor, names: list[str] | None = None
) -> Tensor:
    """Σ Jᵀ Λ J (d_w, d_w) at β = 1."""
    J = jacobian(module, x, names)
    return torch.einsum("nka,nkl,nlb->ab", J, output_curvature(module, likelihood, x, y), J)


def indicators(y: Tensor, classes: int) -> Tensor:
    return one_hot(y, classes).double()


def batches(x: Tensor, y: Tensor, size: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(x.split(size), y.split(size), strict=True))
