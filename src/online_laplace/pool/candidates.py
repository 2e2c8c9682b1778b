"""What a pool is made of, and how much of it a table is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from online_laplace.curvature import exact, last_layer
from online_laplace.ensemble.architecture import Architecture
from online_laplace.likelihood.base import Likelihood
from online_laplace.memory import Footprint
from online_laplace.model.mlp import MLP
from online_laplace.pool.at_once import Learner
from online_laplace.pool.boosting import Boosting
from online_laplace.pool.discriminant import Discriminant
from online_laplace.pool.forest import Forest
from online_laplace.pool.gaussian_process import GaussianProcess
from online_laplace.pool.gaussian_process_of_classes import ClassProcess
from online_laplace.pool.views import columns_seen
from online_laplace.train.rounds import ROUND

# Multiplications and additions that a fit may be expected to take: on two cores about an hour.
MOST_WORK = 3e14
# What one network that is not the first may take of all the work.
MOST_OF_ALL = 0.8


@dataclass(frozen=True)
class Candidate:
    """A network and its prior, with a noise of its own kind, and what it sees of the inputs (`VIEWS`).

    By the whole `curvature` ("auto") it is trained by Gauss-Newton; by that of its last layer ("last-layer"),
    for wide networks, in rounds of first-order steps.
    """

    architecture: Architecture
    noise: str = "constant"
    view: str = "everything"
    curvature: str = exact.name

    def __str__(self) -> str:
        """A short name, such as `20-20 tanh ard, varying noise`."""
        if not self.architecture.hidden:
            kind = {"nothing": "constant", "products": "quadratic"}.get(self.view, "linear")
        else:
            kind = str(self.architecture) + (" of pieces" if self.view == "pieces" else "")
        return kind if self.noise == "constant" else f"{kind}, {self.noise} noise"

    @property
    def is_network(self) -> bool:
        """Whether it has hidden units. A constant or a line has none, and takes no time to speak of."""
        return bool(self.architecture.hidden)

    def curved_weights(self, network: MLP) -> int:
        """How many weights its curvature is of: all of its network, or those of the last layer."""
        entering, outputs = network.widths[-2:]
        return outputs * (entering + 1) if self.curvature == last_layer.name else network.d_w

    def footprint(
        self, features: int, likelihood: Likelihood, members: int, device: str = "cpu"
    ) -> Footprint:
        """What the training of so many members side by side holds in memory."""
        network = self.network(features, likelihood)
        weights, factors = self.curved_weights(network), network.factors_per_row
        return Footprint(likelihood.outputs, weights, members, features, factors, device)

    def network(self, features: int, likelihood: Likelihood) -> MLP:
        """The network for so many columns of the table."""
        columns = columns_seen(self.view, features)
        return self.architecture.network(columns, likelihood.outputs, likelihood.constants)

    @property
    def is_constant(self) -> bool:
        """Whether it sees no inputs."""
        return self.view == "nothing"

    @property
    def most_columns(self) -> float:
        """With how many columns it is still small."""
        return MOST_COLUMNS_OF_PRODUCTS if self.view == "products" else math.inf


CONSTANT = Candidate(Architecture((), prior="scalar"), view="nothing")
LINEAR = Candidate(Architecture((), prior="scalar"))
QUADRATIC = replace(LINEAR, view="products")

# The products of more columns than these are too many to be a small candidate: of 12 there are 78.
MOST_COLUMNS_OF_PRODUCTS = 12
FOREST, BOOSTING, PROCESS = Forest(), Boosting(), GaussianProcess()
DISCRIMINANT, CLASS_PROCESS = Discriminant(), ClassProcess()
AnyCandidate = Candidate | Learner


@dataclass(frozen=True)
class Preset:
    """Candidates, in the order they are tried, and how each is trained.

    The rows are dealt into `blocks`. Each of `members` networks of a candidate leaves `left_out` neighbouring
    blocks out, so that some rows, or all, are left out by two. Training is judged after each of `lengths`
    steps, by a mixture of `snapshots` of its second half; the precisions of prior and noise are updated at
    every `update_every`-th step. Where it `stops_early`, a candidate is trained longer only while its last
    stage has weight. What has weight in the mean in the end is trained once more by `refit` members that
    leave nothing out.
    """

    candidates: tuple[AnyCandidate, ...]
    members: int
    blocks: int
    left_out: int
    lengths: tuple[int, ...]
    snapshots: int = 3
    update_every: int = 1
    stops_early: bool = True
    refit: int = 0

    @property
    def networks(self) -> int:
        """The most networks of one candidate that are trained."""
        return self.members + self.refit

    def with_noise(self, noise: str) -> Preset:
        """The same candidates with this kind of noise alone; what is learnt at once has one kind."""
        able = (c for c in self.candidates if isinstance(c, Candidate) or c.noise == noise)
        same = (replace(candidate, noise=noise) for candidate in able)
        return replace(self, candidates=tuple(dict.fromkeys(same)))

    def after(self, noise: str) -> Preset:
        """The same candidates with this kind of noise, and after them those that there were."""
        return replace(self, candidates=self.with_noise(noise).candidates + self.candidates)

    def at_most(self, steps: int) -> Preset:
        """No longer than so many steps, of networks or of boosting."""
        shorter = tuple(length for length in self.lengths if length <= steps)
        candidates = tuple(
            replace(c, stages=min(c.stages, steps)) if isinstance(c, Boosting) else c for c in self.candidates
        )
        return replace(self, candidates=candidates, lengths=shorter or (steps,))


def _network(hidden: tuple[int, ...], prior: str, noise: str = "constant") -> Candidate:
    return Candidate(Architecture(hidden, "tanh", prior), noise)


# Chosen on tables that are in no report; docs/project/choices.md has what they were compared with.
_ARD, _DEEP = _network((20, 20), "ard", "varying"), _network((14, 14, 14), "scalar", "varying")
_LAYERWISE, _VARYING = _network((20, 20), "layerwise"), _network((20, 20), "layerwise", "varying")
_SIMPLE = (CONSTANT, LINEAR, FOREST, BOOSTING, PROCESS)
PRESETS: Mapping[str, Preset] = {
    "fast": Preset((*_SIMPLE, _ARD, _DEEP), 5, 20, 5, (30, 60, 120), update_every=2),
    "balanced": Preset((*_SIMPLE, _ARD, _DEEP, _LAYERWISE), 8, 16, 3, (30, 60, 120), update_every=2),
    "best": Preset(
        (
            *_SIMPLE[:-2],
            replace(BOOSTING, stages=800),
            replace(PROCESS, centres=1_000),
            _ARD,
            _DEEP,
            _LAYERWISE,
            _VARYING,
            replace(_VARYING, view="pieces"),
        ),
        10,
        20,
        3,
        (30, 60, 120),
        update_every=2,
        refit=8,
    ),
}

# Of classes, which have no noise of another kind. Chosen on other tables and splits than those reported:
# docs/project/choices.md.
_CLASS_FOREST = Forest(noise="constant")
_SMALL, _SMALL_RELU = _network((20,), "scalar"), Candidate(Architecture((20,), "relu", "scalar"))
_WIDE = Candidate(Architecture((100,), "relu", "scalar"), curvature=last_layer.name)
_OF_CLASSES = (CONSTANT, LINEAR, _CLASS_FOREST, DISCRIMINANT, CLASS_PROCESS)
CLASS_PRESETS: Mapping[str, Preset] = {
    "fast": Preset((*_OF_CLASSES, _SMALL_RELU), 5, 20, 5, (10, 20)),
    "balanced": Preset((*_OF_CLASSES, QUADRATIC, _WIDE, _SMALL_RELU, _SMALL), 8, 16, 3, (10, 20)),
    "best": Preset(
        (
            *_OF_CLASSES,
            QUADRATIC,
            _WIDE,
            _SMALL_RELU,
            _SMALL,
            _network((20,), "ard"),
            _network((20,), "layerwise"),
            _LAYERWISE,
        ),
        20,
        20,
        2,
        (10, 20, 40),
    ),
}


def work(candidate: AnyCandidate, preset: Preset, rows: int, features: int, likelihood: Likelihood) -> float:
    """About how many multiplications and additions the training of a candidate takes."""
    if isinstance(candidate, Learner):
        return preset.networks * candidate.work(rows, features, likelihood.targets)
    network = candidate.network(features, likelihood)
    kept = rows * (1 - preset.left_out / preset.blocks)
    # The matrix of products, its factor and inverse, and the passes through the network.
    weights = candidate.curved_weights(network)
    if candidate.curvature == last_layer.name:
        step = kept * (weights**2 / 2 + 6 * ROUND * network.d_w) + weights**3
    else:
        residuals = kept * likelihood.outputs
        smaller = min(residuals, weights)
        step = residuals * weights * (smaller + 10) + smaller**3
    steps = preset.lengths[-1] if candidate.is_network else preset.lengths[0]
    return preset.networks * step * (steps + 2 * preset.snapshots * len(preset.lengths))


def fitting(
    preset: Preset, rows: int, features: int, likelihood_of: Callable[[str], Likelihood]
) -> tuple[Preset, str | None]:
    """As much of a preset as should be done within `MOST_WORK`, and in words what was left out.

    Some candidates are for few columns, and no network but the first may take more than four times as long as
    all else together, as those of pieces do on large tables. The rule for the rest: the second training, on
    all rows, goes first; then the longest training, down to the shortest; then the last candidates, down to
    one network; then members, down to two.
    """

    def of(candidate: AnyCandidate, preset: Preset) -> float:
        return work(candidate, preset, rows, features, likelihood_of(candidate.noise))

    def total(preset: Preset) -> float:
        return sum(of(candidate, preset) for candidate in preset.candidates)

    small = tuple(c for c in preset.candidates if features <= c.most_columns)
    preset = replace(preset, candidates=small)
    first = next((c for c in small if c.is_network), None)
    most = MOST_OF_ALL * total(preset)
    small = tuple(c for c in small if c == first or not c.is_network or of(c, preset) <= most)
    whole = preset = replace(preset, candidates=small)
    if total(preset) > MOST_WORK:
        preset = replace(preset, refit=0)
    while total(preset) > MOST_WORK and len(preset.lengths) > 1:
        preset = replace(preset, lengths=preset.lengths[:-1])
    while total(preset) > MOST_WORK and sum(c.is_network for c in preset.candidates) > 1:
        preset = replace(preset, candidates=preset.candidates[:-1])
    if (over := total(preset) / MOST_WORK) > 1 and preset.members > 2:
        members = max(2, math.floor(preset.members / over))
        # As many blocks as before: what is learnt at once leaves some of those out that its member sees.
        preset = replace(preset, members=members, left_out=math.ceil(preset.blocks / members))
    if preset == whole:
        return preset, None
    return preset, (
        f"{rows:,} rows of {features} columns are many for the exact method: {len(preset.candidates)} of "
        f"{len(whole.candidates)} candidates are trained, {preset.members} networks each, for at most "
        f"{preset.lengths[-1]} steps; a random sample of the rows would allow more"
    )


def arcs(blocks: int, members: int, left_out: int) -> Sequence[list[int]]:
    """The blocks that each member leaves out: neighbours on a circle, so that all are left out."""
    left_out = max(left_out, math.ceil(blocks / members))
    starts = (m * blocks // members for m in range(members))
    return [[(start + i) % blocks for i in range(left_out)] for start in starts]
