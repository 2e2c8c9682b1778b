"""Draw docs/images/how-it-works.png from a real fit: python docs/draw_how_it_works.py."""

from __future__ import annotations

from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from online_laplace import OnlineLaplaceRegressor
from online_laplace.style import (
    BLUE,
    GREY,
    SKY,
    VERMILLION,
    house_style,
)

TARGET = Path(__file__).parent / "images" / "how-it-works.png"
NOISE = 0.2


def toy(rows: int = 60) -> tuple[np.ndarray, np.ndarray]:
    """A noisy wave, seen on two stretches of the axis."""
    random = np.random.default_rng(0)
    x = np.concatenate(
        [
            random.uniform(-4, -0.5, rows // 2),
            random.uniform(1.5, 4, rows - rows // 2),
        ]
    )
    return x[:, None], np.sin(1.5 * x) + 0.25 * x + random.normal(0, NOISE, rows)


def main() -> None:
    """Fit, draw and say what was learnt."""
    X, y = toy()
    model = OnlineLaplaceRegressor(random_state=0).fit(X, y)
    grid = np.linspace(-5.5, 5.5, 400)[:, None]
    lower, upper = model.predict_interval(grid)
    low, high = model.predict_interval(grid, noise=False)
    with house_style():
        figure, (left, right) = plt.subplots(
            1, 2, figsize=(9.6, 3.6), width_ratios=(3, 2)
        )
        left.fill_between(
            grid[:, 0],
            lower,
            upper,
            color=SKY,
            alpha=0.3,
            linewidth=0,
            label="new observation",
        )
        left.fill_between(
            grid[:, 0],
            low,
            high,
            color=BLUE,
            alpha=0.4,
            linewidth=0,
            label="function",
        )
        left.plot(grid[:, 0], model.predict(grid), color=BLUE, label="mean")
        left.plot(X[:, 0], y, ".", color="black", markersize=4, label="data")
        left.set(
            xlabel="x",
            ylabel="y",
            title="predictions with 90% bands",
            ylim=(-4, 4),
            xlim=(-5.5, 5.5),
        )
        left.legend(loc="lower right", ncols=2)

        steps = model.history_["steps"]
        noise = np.std(y) / np.sqrt(model.history_["beta"][:, :, 0])
        alpha = model.history_["alpha"][:, :, 0]
        for values, colour, name in (
            (alpha, VERMILLION, "weight decay α"),
            (noise, BLUE, "noise std, 1/√β in units of y"),
        ):
            right.plot(steps, values, color=colour, linewidth=0.8, alpha=0.4)
            right.plot(steps, np.median(values, axis=1), color=colour, label=name)
        right.axhline(
            NOISE,
            color=GREY,
            linestyle="--",
            linewidth=1,
            label="the true noise std",
        )
        right.set(xlabel="step", yscale="log", title="what is learnt on the way")
        right.legend()
        figure.savefig(TARGET, dpi=160)
    print(
        f"{TARGET.name}: noise std {model.noise_std_:.3f}, α {model.alpha_:.3f}, γ {model.gamma_:.1f}"
    )


if __name__ == "__main__":
    main()
