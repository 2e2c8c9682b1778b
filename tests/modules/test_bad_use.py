"""Every bad use gets a message that says what to do."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F

from module_problems import Words, inputs_for, mlp, seeded, targets
from online_laplace import OnlineLaplace
from online_laplace.core import Gaussian, VaryingGaussian
from online_laplace.errors import DivergedError, InputError
from online_laplace.modules import Cadence, fit
from problems import normal


def refused(message, make, *args, **settings):
    with pytest.raises(InputError, match=message):
        make(*args, **settings)


def data(module, likelihood="gaussian", n=8):
    return inputs_for(module, n), targets(likelihood, n)


def test_no_trainable_parameters():
    refused(
        r"no trainable parameters: set requires_grad",
        OnlineLaplace,
        mlp(2).requires_grad_(False),
        "gaussian",
        n_data=8,
    )
    refused(r"no trainable parameters", OnlineLaplace, nn.Tanh(), "gaussian", n_data=8)
    refused(r"must be a torch.nn.Module, not function", OnlineLaplace, lambda x: x, "gaussian", n_data=8)


@pytest.mark.parametrize("n_data", [0, -3, 2.5, True, None])
def test_an_n_data_that_is_no_number_of_rows(n_data):
    refused(r"n_data must be the number of training rows", OnlineLaplace, mlp(2), "gaussian", n_data=n_data)


def test_whole_numbers_of_numpy_are_whole_numbers(tmp_path):
    module = mlp(2)
    found = fit(
        module, [data(module)], "gaussian", n_data=np.int64(8), epochs=np.int64(2), seed=np.int64(3),
        probes=np.int32(2), curvature="diagonal", checkpoint=tmp_path / "run", quiet=True,
    )  # fmt: skip
    assert found.history[-1].n_data == 8 and len(found.losses) == 2


def test_unknown_names_are_offered_the_nearest():
    refused(r"did you mean 'categorical'", OnlineLaplace, mlp(2), "categoric", n_data=8)
    refused(r"did you mean 'kron'", OnlineLaplace, mlp(2), "gaussian", n_data=8, curvature="krone")
    refused(r"did you mean 'layerwise'", OnlineLaplace, mlp(2), "gaussian", n_data=8, prior="layer-wise")
    refused(r"called 'categorical', or 'bern", OnlineLaplace, mlp(2), "classification", n_data=8)
    refused(r"it is called 'gaussian' here", OnlineLaplace, mlp(2), "regression", n_data=8)
    refused(r"choose one of weights, mode", OnlineLaplace, mlp(2), "gaussian", n_data=8, mean="median")


def test_outputs_that_do_not_fit_the_likelihood():
    two, one = mlp(2), mlp(1)
    x, y = data(two)
    refused(
        r"Bernoulli likelihood needs 1 output, but the module has 2",
        OnlineLaplace(two, "bernoulli", n_data=8).loss,
        x,
        y,
    )
    refused(r"at least two classes", OnlineLaplace(one, "categorical", n_data=8).loss, x, y)
    image = nn.Sequential(nn.Conv2d(2, 3, 3)).double()
    refused(
        r"must return \(rows, outputs\)",
        OnlineLaplace(image, "gaussian", n_data=8).loss,
        normal(8, 2, 6, 6, seed=0),
        y,
    )

    class Several(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.Linear(3, 2)

        def forward(self, x):
            return {"logits": self.layer(x)}

    refused(
        r"the module returns dict: wrap it", OnlineLaplace(seeded(Several), "gaussian", n_data=8).loss, x, y
    )
    refused(
        r"noise of VaryingGaussian needs precisions of its own, and 2.weight belongs.*a layer of its own",
        OnlineLaplace,
        two,
        VaryingGaussian(),
        n_data=8,
    )


def test_targets_that_do_not_fit_the_likelihood():
    module = mlp(3)
    x, y = data(module, "categorical")
    tuner = OnlineLaplace(module, "categorical", n_data=8)
    refused(r"classes must be numbers from 0 to 2", tuner.loss, x, y + 1)
    refused(r"needs targets of shape \(8, 3\)", tuner.loss, x, y[:7])
    refused(r"targets must be a tensor", tuner.loss, x, y.tolist())
    for labels in (y.double(), y.unsqueeze(-1)):
        refused(r"or the numbers of the classes as integers of shape \(8,\)", tuner.loss, x, labels)
    refused(r"must sum to 1, and in row 0 they sum to 3", tuner.loss, x, torch.ones(8, 3))
    soft = normal(8, 3, seed=1).softmax(-1)  # probabilities of classes sum to one too
    assert torch.isfinite(tuner.loss(x, soft))
    poisson = OnlineLaplace(module, "poisson", n_data=8)
    for counts in (normal(8, 3, seed=1), torch.full((8, 3), 0.5)):
        refused(r"counts must be 0 or more, and whole", poisson.loss, x, counts)
    refused(
        r"targets must be finite",
        OnlineLaplace(module, "gaussian", n_data=8).loss,
        x,
        normal(8, 3, seed=1) / 0,
    )
    refused(r"from 0 to 1", OnlineLaplace(mlp(1), "bernoulli", n_data=8).loss, x, y + 3)


def test_an_n_data_that_contradicts_the_loader():
    module = mlp(2)
    x, y = data(module)
    refused(r"n_data is 5, but one batch has 8 rows", OnlineLaplace(module, "gaussian", n_data=5).loss, x, y)
    refused(
        r"n_data is 9, but the loader has 8 rows",
        OnlineLaplace(module, "gaussian", n_data=9).posterior,
        [(x, y)],
    )


def test_an_empty_loader_and_batches_that_are_no_pairs():
    module = mlp(2)
    x, y = data(module)
    tuner = OnlineLaplace(module, "gaussian", n_data=8)
    refused(r"the loader is empty", tuner.posterior, [])
    refused(r"must be \(inputs, targets\)", tuner.posterior, [x])
    refused(r"got tuple of 3", tuner.posterior, [(x, y, y)])
    refused(r"the batch is empty", tuner.loss, x[:0], y[:0])
    refused(r"must be a tensor, or a tuple", tuner.loss, "words", y)
    refused(r"the same rows", tuner.loss, (x, x[:3]), y)


@pytest.mark.parametrize("where", ["loss", "update"])
def test_losses_that_are_no_numbers(where):
    module = mlp(2)
    x, y = data(module)
    x[3, 1] = torch.nan
    tuner = OnlineLaplace(module, "gaussian", n_data=8)
    with pytest.raises(DivergedError, match=r"outputs are not finite in 1 of 8 rows \(the first is 3\)"):
        getattr(tuner, where)(x, y)
    with torch.no_grad():
        module[2].bias.fill_(800.0)
    with pytest.raises(DivergedError, match=r"likelihood of the targets overflows"):
        getattr(OnlineLaplace(module, "poisson", n_data=8), where)(x.nan_to_num(), y.abs().round())


def test_precisions_that_leave_the_numbers_end_the_run_and_stay_as_they_were():
    module = mlp(2)
    x, _ = data(module)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="full")
    with pytest.raises(
        DivergedError, match=r"diverged: beta left the numbers that float64 resolves at step 1"
    ):
        tuner.update(x, module(x).detach())  # β = (n − γ) / 0
    assert set(tuner.alpha.values()) == {1.0} and tuner.beta == 1


def test_a_prior_precision_that_runs_away_prunes_its_group_and_is_told():
    module = mlp(2)
    nn.init.zeros_(module[0].bias)  # α = γ / 0
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="full")
    assert tuner.update(*data(module)).pruned == ("0.bias",)
    assert tuner.update(*data(module)).pruned == ("0.bias",)


def test_dropout_in_train_mode():
    module = nn.Sequential(nn.Linear(3, 4), nn.Dropout(0.5), nn.Linear(4, 2)).double()
    x, y = data(module)
    tuner = OnlineLaplace(module, "gaussian", n_data=8)
    refused(r"1 \(Dropout\) drops out at random in train mode.*call eval\(\)", tuner.loss, x, y)
    module[1].eval()
    assert torch.isfinite(tuner.loss(x, y))

    class Random(nn.Linear):
        def forward(self, x):
            return F.dropout(super().forward(x), 0.5, training=True)

    odd = nn.Sequential(Random(3, 2)).double()
    refused(
        r"two different outputs for the same inputs",
        OnlineLaplace(odd, "gaussian", n_data=8, curvature="full").update,
        x,
        y,
    )


class Dropping(nn.Linear):
    """Dropout as a function, of which no layer tells."""

    def forward(self, x):
        return F.dropout(super().forward(x), 0.5, training=self.training)


@pytest.mark.parametrize("make", [lambda: Dropping(3, 3), nn.RReLU], ids=["dropout", "RReLU"])
def test_random_numbers_in_train_mode_are_noticed_by_being_drawn(make):
    part = make()
    module = nn.Sequential(nn.BatchNorm1d(3), nn.Sequential(part), nn.Linear(3, 2)).double()
    x, y = normal(8, 3, seed=0), normal(8, 2, seed=1)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="diagonal", normalisation="accept")
    kept = {name: value.clone() for name, value in module.state_dict().items()}
    refused(
        rf"1\.0 \({type(part).__name__}\) draws random numbers in train mode.*call eval", tuner.loss, x, y
    )
    moved = {name for name, value in module.state_dict().items() if not torch.equal(value, kept[name])}
    assert moved == {"0.running_mean", "0.running_var", "0.num_batches_tracked"}
    assert module.state_dict()["0.num_batches_tracked"] == kept["0.num_batches_tracked"] + 1
    assert (
        part.training and not part._forward_hooks and not any(p.training for p in tuner.view.shadow.modules())
    )
    part.eval()
    assert torch.isfinite(tuner.loss(x, y))


def test_a_module_that_seeds_a_generator_and_draws_the_same_each_time_is_one_function():
    class Seeded(nn.Linear):
        def forward(self, x):
            torch.manual_seed(0)
            return super().forward(x) + torch.rand(self.out_features, dtype=x.dtype)

    module = Seeded(3, 2).double()
    x, y = data(module)
    with torch.random.fork_rng([]):
        torch.rand(3)
        assert torch.isfinite(OnlineLaplace(module, "gaussian", n_data=8, curvature="full").loss(x, y))


class First(nn.Module):
    """What a layer that returns several things returns first, at the last position."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer, self.head = layer, nn.Linear(4, 2)

    def forward(self, x):
        arguments = (x,) * (3 if isinstance(self.layer, nn.MultiheadAttention) else 1)
        return self.head(self.layer(*arguments)[0][:, -1])


DROPPING = {
    "LSTM": lambda p: nn.LSTM(4, 4, 2, dropout=p, batch_first=True),
    "GRU": lambda p: nn.GRU(4, 4, 2, dropout=p, batch_first=True),
    "MultiheadAttention": lambda p: nn.MultiheadAttention(4, 2, dropout=p, batch_first=True),
}


@pytest.mark.parametrize("kind", DROPPING)
def test_layers_that_drop_out_inside_in_train_mode(kind):
    module = seeded(lambda: First(DROPPING[kind](0.5)))
    x, y = normal(8, 3, 4, seed=1), normal(8, 2, seed=2)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="last-layer")
    refused(rf"layer \({kind}\) drops out at random in train mode.*set dropout to 0", tuner.loss, x, y)
    module.layer.dropout = 0.0
    assert torch.equal(tuner.loss(x, y), tuner.loss(x, y))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision(dtype):
    refused(
        r"0.weight is .*float16: .*Keep the parameters in float32",
        OnlineLaplace,
        mlp(2).to(dtype),
        "gaussian",
        n_data=8,
    )


def test_parameters_of_two_dtypes():
    module = mlp(2)
    module[2].float()
    refused(
        r"2.weight is float32 on cpu, but 0.weight is float64", OnlineLaplace, module, "gaussian", n_data=8
    )


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.one, self.two = nn.Linear(3, 3, bias=False), nn.Linear(3, 3, bias=False)
        self.two.weight = self.one.weight

    def forward(self, x):
        return self.two(torch.tanh(self.one(x)))


def test_a_tied_weight_is_refused_by_kron_and_counted_once_by_the_others():
    module = seeded(Tied)
    refused(
        r"one.weight and two.weight are one shared",
        OnlineLaplace,
        module,
        "gaussian",
        n_data=8,
        curvature="kron",
    )
    x, y = normal(8, 3, seed=1), normal(8, 3, seed=2)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="full")
    H = tuner.posterior([(x, y)]).H
    rows = []
    for row in x:  # autograd knows both uses
        f = module(row)
        rows += [torch.autograd.grad(one, module.one.weight, retain_graph=True)[0].flatten() for one in f]
    J = torch.stack(rows)
    torch.testing.assert_close(H.log_contraction(), torch.logdet(J.mT @ J + torch.eye(9).double()))


def test_a_weight_that_is_used_outside_its_layer_too_is_refused_by_kron_and_known_to_the_others():
    class Again(nn.Module):
        def __init__(self, before: bool) -> None:
            super().__init__()
            self.layer, self.before = nn.Linear(3, 3), before

        def forward(self, x):
            again = lambda h: F.linear(h, self.layer.weight)  # noqa: E731
            return self.layer(again(x)) if self.before else again(self.layer(x))

    x, y = normal(8, 3, seed=1), normal(8, 3, seed=2)
    for before in (False, True):
        module = seeded(lambda before=before: Again(before))
        tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="kron")
        refused(r"layer.weight is used outside the call of its own layer too", tuner.loss, x, y)
        assert OnlineLaplace(module, "gaussian", n_data=8, curvature="full").update(x, y) is not None


def test_layers_that_kron_does_not_know_are_refused_by_name_with_what_does():
    others = "or use diagonal, block, full, last-layer or matrix-free"

    def kron(module):
        return OnlineLaplace(module.double(), "gaussian", n_data=8, curvature="kron")

    refused(f"0.weight belongs to Conv1d.*{others}", kron, nn.Sequential(nn.Conv1d(2, 2, 1)))
    refused(f"weight_ih_l0 belongs to LSTM.*{others}", kron, nn.LSTM(3, 2))
    refused(
        r"0.weight belongs to Conv2d, a convolution in groups",
        kron,
        nn.Sequential(nn.Conv2d(2, 2, 1, groups=2)),
    )
    refused(
        r"an embedding that changes its own weights", kron, nn.Sequential(nn.Embedding(3, 2, max_norm=1.0))
    )
    refused(r"in_proj_weight belongs to MultiheadAttention", kron, nn.MultiheadAttention(2, 1))

    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer, self.unused = nn.Linear(3, 3), nn.Linear(3, 3)

        def forward(self, x):
            return self.layer(self.layer(x))

    module = seeded(Twice)
    x, y = normal(8, 3, seed=1), normal(8, 3, seed=2)
    refused(r"layer is called more than once in a pass", kron(module).update, x, y)
    module.forward = lambda x: x @ module.layer.weight
    refused(r"layer is not called when the module is", kron(module).update, x, y)


def test_modules_that_cannot_be_copied_or_have_no_shape_yet():
    module = mlp(2)
    module.lock = __import__("threading").Lock()
    refused(r"cannot be copied by copy.deepcopy", OnlineLaplace, module, "gaussian", n_data=8)
    refused(r"has no shape yet: run one batch", OnlineLaplace, nn.LazyLinear(2), "gaussian", n_data=8)


def test_modules_without_numbers_and_scripted_ones():
    refused(r"on the meta device and has no numbers", OnlineLaplace, mlp(2).to("meta"), "gaussian", n_data=8)
    empty = mlp(2).to("meta").to_empty(device="cpu")
    empty.load_state_dict(mlp(2).state_dict())
    assert OnlineLaplace(empty, "gaussian", n_data=8).update(*data(empty)) is not None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        scripted = torch.jit.trace(mlp(2), data(mlp(2))[0])
    refused(r"scripted module cannot be looked into", OnlineLaplace, scripted, "gaussian", n_data=8)


def test_a_module_in_data_parallel_is_looked_at_as_itself():
    module = mlp(2)
    x, y = data(module)
    found = []
    for model in (module, nn.DataParallel(module)):
        tuner = OnlineLaplace(model, "gaussian", n_data=8, curvature="kron")
        tuner.loss(x, y)
        found.append(tuner.update(x, y))
    assert found[0] == found[1]


def test_a_module_whose_dtype_changes_is_noticed_and_its_state_goes_on_in_a_new_tuner():
    module = mlp(2).float()
    x, y = data(module)
    tuner = OnlineLaplace(module, "gaussian", n_data=8, curvature="full")
    tuner.update(x.float(), y)
    module.double()
    for use in (tuner.loss, tuner.update):
        refused(r"0.weight was torch.float32 on cpu and is torch.float64 on cpu now", use, x, y)
    new = OnlineLaplace(module, "gaussian", n_data=8, curvature="full")
    new.load_state_dict(tuner.state_dict())
    assert new.update(x, y) is not None and new.looks == 2
    assert new.hyper.alpha.dtype == torch.float64


def test_rows_that_interact_in_eval_mode():
    module = nn.Sequential(nn.Linear(3, 2), nn.BatchNorm1d(2, track_running_stats=False)).double()
    refused(r"1 \(BatchNorm1d\) keeps no running statistics", OnlineLaplace, module, "gaussian", n_data=8)

    class Centred(nn.Linear):
        def forward(self, x):
            return super().forward(x - x.mean(0))

    x, y = data(mlp(2))
    for curvature in ("full", "diagonal"):
        centred = nn.Sequential(Centred(3, 4), nn.Linear(4, 2)).double()
        tuner = OnlineLaplace(centred, "gaussian", n_data=8, curvature=curvature)
        for use in (tuner.loss, tuner.update):
            refused(r"outputs of a row change with the other rows.*must be a buffer", use, x, y)


def test_the_mode_needs_the_whole_curvature_and_all_rows():
    refused(
        r"needs the whole curvature, and kron is not",
        OnlineLaplace,
        mlp(2),
        "gaussian",
        n_data=8,
        curvature="kron",
        mean="mode",
    )
    module = mlp(2)
    x, y = data(module)
    tuner = OnlineLaplace(
        module, "gaussian", n_data=9, mean="mode", curvature="full", cadence=Cadence(every=1, decay=0)
    )
    refused(r"mean='mode' needs all rows in one batch", tuner.update, x, y)


def test_the_mode_remembers_nothing_of_earlier_looks():
    module = mlp(2)
    x, y = data(module)
    settings = dict(n_data=8, mean="mode", curvature="full")
    refused(
        r"nothing of earlier looks can be added: give the cadence decay=0",
        OnlineLaplace,
        module,
        "gaussian",
        cadence=Cadence(every=1),
        **settings,
    )
    tuner = OnlineLaplace(module, "gaussian", cadence=Cadence(every=1, decay=0), **settings)
    assert all(tuner.update(x, y) is not None for _ in range(3))


@pytest.mark.parametrize(
    "settings",
    [{"every": 0}, {"refresh": 0}, {"decay": -0.1}, {"decay": 1.1}, {"limit": 0.0}, {"patience": 1.0}],
)
def test_what_is_no_cadence(settings):
    refused(r"must be", Cadence, **settings)


def test_no_probe_at_all():
    refused(
        r"probes must be a whole number of at least 1",
        OnlineLaplace,
        seeded(lambda: Words(2)),
        "gaussian",
        n_data=8,
        probes=0,
    )


BAD_SETTINGS = {
    "no likelihood": ({"likelihood": None}, r"likelihood must be one of gaussian, .* not None"),
    "a class": ({"likelihood": Gaussian}, r"Gaussian is a class: call it with its settings"),
    "a number": ({"likelihood": 3}, r"or a Likelihood of the core, not 3"),
    "alpha in words": ({"alpha": "small"}, r"initial alpha must be a positive, finite precision, not small"),
    "no beta": ({"beta": None}, r"initial beta must be a positive, finite precision, not None"),
    "probes in words": ({"probes": "many"}, r"probes must be a whole number of at least 1, .* not 'many'"),
    "half a probe": ({"probes": 2.5}, r"probes must be a whole number of at least 1, .* not 2\.5"),
    "seed in words": ({"seed": "dice"}, r"seed must be a whole number from 0 to below 2\*\*63, not 'dice'"),
    "no seed": ({"seed": None}, r"seed must be a whole number"),
    "cadence in words": ({"cadence": "often"}, r"cadence must be a Cadence, such as .* not 'often'"),
    "no reduce": ({"reduce": None}, r"reduce must be a function of a sum, such as AllReduce\(\), not None"),
    "large seed": ({"seed": 2**70}, r"seed must be a whole number"),
}


@pytest.mark.parametrize("case", BAD_SETTINGS)
def test_a_setting_that_cannot_be_used_is_refused_by_name(case):
    settings, message = BAD_SETTINGS[case]
    refused(message, OnlineLaplace, mlp(2), n_data=8, **({"likelihood": "gaussian"} | settings))


def test_what_fit_and_a_posterior_cannot_use():
    module = mlp(2)
    x, y = data(module)
    refused(r"epochs must be a whole number", fit, module, [(x, y)], "gaussian", n_data=8, epochs="3")
    optimiser = torch.optim.Adam(module.parameters())
    refused(
        r"optimiser must make one.*not Adam", fit, module, [(x, y)], "gaussian", n_data=8, optimiser=optimiser
    )
    refused(r"the loader must give batches .* and 5 does not", fit, module, 5, "gaussian", n_data=8)
    posterior = OnlineLaplace(module, "gaussian", n_data=8).posterior([(x, y)])
    refused(r"number of draws must be a whole number", posterior.predict, x, draws=0)
    for draws in (None, 3):
        refused(r"there are no rows to predict", posterior.predict, x[:0], draws=draws)
    refused(r"number of draws must be a whole number", posterior.sample, x, 0, torch.Generator())


def test_noise_with_a_layer_of_its_own_may_vary_with_the_inputs():
    class Two(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body, self.mean, self.noise = nn.Linear(3, 4), nn.Linear(4, 1), nn.Linear(4, 1)

        def forward(self, x):
            h = torch.tanh(self.body(x))
            return torch.cat([self.mean(h), self.noise(h)], -1)

    module = seeded(Two)
    x, y = inputs_for(module, 8), normal(8, 1, seed=2)
    tuner = OnlineLaplace(module, VaryingGaussian(), n_data=8, curvature="kron")
    assert tuner.update(x, y).alpha.keys() >= {"mean.weight", "noise.weight"}
    assert tuner.posterior([(x, y)]).predict(x).mean.shape == (8, 1)
