"""What a pool is made of, and how much of it a table is given."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from online_laplace.ensemble.architecture import Architecture
from online_laplace.likelihood.base import Likelihood

# Multiplications and additions that a fit may be expected to take: on two cores about an hour.
MOST_WORK = 3e14


@dataclass(frozen=True)
class Candidate:
    """A network and its prior, with a noise of its own kind; or a constant, which does not see the inputs."""

    architecture: Architecture
    noise: str = "constant"
    sees_inputs: bool = True

    def __str__(self) -> str:
        """A short name, such as `20-20 tanh ard, varying noise`."""
        if not self.architecture.hidden:
            kind = "linear" if self.sees_inputs else "constant"
        else:
            kind = str(self.architecture)
        return kind if self.noise == "constant" else f"{kind}, {self.noise} noise"

    @property
    def is_network(self) -> bool:
        """Whether it has hidden units."""
        return bool(self.architecture.hidden)


CONSTANT = Candidate(Architecture((), prior="scalar"), sees_inputs=False)
LINEAR = Candidate(Architecture((), prior="scalar"))


@dataclass(frozen=True)
class Preset:
    """Candidates, in the order they are tried, and how each is trained.

    The rows are dealt into `blocks`. Each of `members` networks of a candidate leaves `left_out` neighbouring
    blocks out, so that some rows, or all, are left out by two. Training is judged after each of `lengths`
    steps, by a mixture of `snapshots` of its second half.
    """

    candidates: tuple[Candidate, ...]
    members: int
    blocks: int
    left_out: int
    lengths: tuple[int, ...]
    snapshots: int = 3

    def with_noise(self, noise: str) -> Preset:
        """The same candidates with this kind of noise alone."""
        same = (replace(candidate, noise=noise) for candidate in self.candidates)
        return replace(self, candidates=tuple(dict.fromkeys(same)))

    def at_most(self, steps: int) -> Preset:
        """No longer than so many steps."""
        shorter = tuple(length for length in self.lengths if length <= steps)
        return replace(self, lengths=shorter or (steps,))


def _network(hidden: tuple[int, ...], prior: str, noise: str = "constant") -> Candidate:
    return Candidate(Architecture(hidden, "tanh", prior), noise)


# Chosen on tables that are in no report; docs/default-configuration.md has what they were compared with.
_ARD, _DEEP = _network((20, 20), "ard", "varying"), _network((20, 20, 20), "scalar", "varying")
_LAYERWISE = _network((20, 20), "layerwise")
PRESETS: Mapping[str, Preset] = {
    "fast": Preset((CONSTANT, LINEAR, _ARD, _LAYERWISE), 5, 10, 3, (30, 60, 120)),
    "balanced": Preset((CONSTANT, LINEAR, _ARD, _LAYERWISE, _DEEP), 8, 16, 3, (30, 60, 120)),
    "best": Preset(
        (
            CONSTANT,
            LINEAR,
            _ARD,
            _LAYERWISE,
            _DEEP,
            _network((20, 20), "layerwise", "varying"),
            _network((20, 20, 20), "scalar"),
            _network((50, 50), "layerwise"),
        ),
        20,
        20,
        2,
        (30, 60, 120, 240),
    ),
}

# Of classes, which have no noise of another kind.
_SMALL, _SMALL_LAYERWISE = _network((20,), "scalar"), _network((20,), "layerwise")
CLASS_PRESETS: Mapping[str, Preset] = {
    "fast": Preset((CONSTANT, LINEAR, _SMALL), 5, 10, 3, (10, 20, 40)),
    "balanced": Preset((CONSTANT, LINEAR, _SMALL, _SMALL_LAYERWISE), 8, 16, 3, (10, 20, 40)),
    "best": Preset(
        (CONSTANT, LINEAR, _SMALL, _SMALL_LAYERWISE, _network((20,), "ard"), _LAYERWISE),
        20,
        20,
        2,
        (10, 20, 40, 80),
    ),
}


def work(candidate: Candidate, preset: Preset, rows: int, features: int, likelihood: Likelihood) -> float:
    """About how many multiplications and additions the training of a candidate takes."""
    weights = candidate.architecture.network(features, likelihood.outputs, likelihood.constants).d_w
    residuals = rows * likelihood.outputs * (1 - preset.left_out / preset.blocks)
    smaller = min(residuals, weights)
    # The matrix of products, its factor and inverse, and the passes through the network.
    step = residuals * weights * (smaller + 10) + smaller**3
    steps = preset.lengths[-1] if candidate.is_network else preset.lengths[0]
    return preset.members * step * (steps + 2 * preset.snapshots * len(preset.lengths))


def fitting(
    preset: Preset, rows: int, features: int, likelihood_of: Callable[[str], Likelihood]
) -> tuple[Preset, str | None]:
    """As much of a preset as should be done within `MOST_WORK`, and in words what was left out.

    The rule: the longest training goes first, down to the shortest; then the last candidates, down to one
    network; then members, down to two.
    """

    def total(preset: Preset) -> float:
        return sum(work(c, preset, rows, features, likelihood_of(c.noise)) for c in preset.candidates)

    whole = preset
    while total(preset) > MOST_WORK and len(preset.lengths) > 1:
        preset = replace(preset, lengths=preset.lengths[:-1])
    while total(preset) > MOST_WORK and sum(c.is_network for c in preset.candidates) > 1:
        preset = replace(preset, candidates=preset.candidates[:-1])
    if (over := total(preset) / MOST_WORK) > 1 and preset.members > 2:
        members = max(2, math.floor(preset.members / over))
        preset = replace(preset, members=members, blocks=members, left_out=1)
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
