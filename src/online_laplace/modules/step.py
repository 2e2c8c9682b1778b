"""One update of the precisions from sums over some rows, scaled to all of them."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from online_laplace.curvature.blocks import BlockEvidence, BlockGGN
from online_laplace.curvature.kronecker import KroneckerGGN
from online_laplace.curvature.spectra import Spectra, SpectralEvidence
from online_laplace.curvature.subset import SubsetEvidence, SubsetGGN
from online_laplace.errors import DivergedError, InputError
from online_laplace.hyper.mackay import Statistics, at_mode, mackay_update
from online_laplace.model.precision import Precision
from online_laplace.model.prior import Hyper
from online_laplace.model.tangent import TangentModel, weighted
from online_laplace.modules.sums import Sums
from online_laplace.train.outcome import Ending

Curvature = Precision | SpectralEvidence | BlockEvidence | SubsetEvidence


class Step(NamedTuple):
    """The precisions after it, what they came from, and the evidence before it."""

    hyper: Hyper
    H: Curvature
    seen: Statistics
    evidence: Tensor


def take_step(
    hyper: Hyper, tangent: TangentModel, sums: Sums, n_data: int, mean: str, shapes: Spectra | None
) -> Step:
    """MacKay's update at the weights of `tangent`, the latest batch, or at its mode.

    The eigenvalues of Kronecker factors are of these `shapes`. Raises InputError where the mode is asked for
    of some rows only.
    """
    scale, ggn, likelihood = n_data / sums.rows, sums.ggn, tangent.likelihood
    # H = β · scale · G + A: the scale goes with β.
    at = hyper if scale == 1 else hyper.with_values(hyper.alpha, scale * hyper.beta)
    H: Curvature
    if isinstance(ggn, KroneckerGGN):
        H = ggn.evidence(at, ggn.shapes() if shapes is None else shapes)
    elif isinstance(ggn, BlockGGN):
        H = ggn.evidence(at)
    elif isinstance(ggn, SubsetGGN):
        H = ggn.evidence(hyper, n_data * likelihood.outputs)
    else:
        H = ggn.at(at)
    if mean == "mode":
        assert isinstance(H, Precision)
        if not sums.rows == n_data == float(tangent.n):
            raise InputError(
                "mean='mode' needs all rows in one batch, since the mode is that of one tangent model: "
                f"use batches of {n_data:,} rows, or mean='weights'"
            )
        fit = at_mode(tangent, hyper, H)
        misfit, norm = fit.misfit, hyper.prior.norm(fit.mu)
        loss = tangent.tangent_loss(hyper, fit.mu)
    else:
        misfit, norm = scale * sums.misfit, hyper.prior.norm(tangent.w)
        loss = weighted(hyper, scale * sums.loss) + 0.5 * (hyper.alpha * norm).sum()
    gamma = H.group_gamma()
    spent = H.scale_gamma() if len(hyper.beta) > 1 else gamma.sum(-1, keepdim=True)
    if not H.exact:
        spent = _positive_noise(spent, misfit, hyper.beta, n_data * likelihood.targets)
    seen = Statistics(norm, gamma, misfit, spent, n_data, likelihood)
    evidence = likelihood.log_normaliser(hyper.beta, n_data) - 0.5 * H.log_contraction() - loss
    return Step(mackay_update(hyper, seen), H, seen, evidence)


def check_step(call: int, w: Tensor, hyper: Hyper, step: Step) -> None:
    """End a run whose numbers can no longer be used. Raises DivergedError with the outcome."""
    ending = Ending.none(w).check(call, w, hyper, misfit=step.seen.misfit, failed=step.H.failed)
    if ending.failed.any():
        (outcome,) = ending.outcomes(call, w.dtype)
        raise DivergedError(str(outcome))


def _positive_noise(spent: Tensor, misfit: Tensor, beta: Tensor, residuals: int) -> Tensor:
    """γ as the noise sees it where the curvature is not the whole: below the number of residuals.

    Without what lies between weights γ may exceed it, and (n − γ) / ‖z‖² would be negative. The update
    n / (‖z‖² + γ/β), of the same fixed points, never is: (n − γ') / ‖z‖² with γ' = n γ / (β ‖z‖² + γ).
    """
    each = residuals / len(beta)
    return each * spent / (beta * misfit + spent)
