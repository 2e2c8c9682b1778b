"""A made-up table to try things on: houses with their prices, with a column of text and a few gaps."""

from __future__ import annotations

import csv
import io

import numpy as np

ROWS = 240
TARGET = "price"
_CITIES = {"Bergen": 1.0, "Oslo": 1.45, "Trondheim": 1.1, "Tromsø": 0.9}


def example_table() -> bytes:
    """The file, the same every time: a header and 240 rows."""
    random = np.random.default_rng(7)
    text = io.StringIO()
    file = csv.writer(text, lineterminator="\n")
    file.writerow(["area", "rooms", "year_built", "distance_to_centre", "city", "garden", TARGET])
    for _ in range(ROWS):
        area = float(random.gamma(9, 11) + 20)
        rooms = max(1, round(area / 28 + float(random.normal(0, 0.8))))
        year = int(random.integers(1905, 2024))
        distance = float(random.exponential(5))
        city = str(random.choice(list(_CITIES)))
        garden = bool(random.random() < 0.35)
        # Old houses have charm, new ones have insulation; what lies between has neither.
        age = 1 + 0.25 * ((year - 1965) / 60) ** 2
        value = 2600 * area**0.92 * _CITIES[city] * age * (0.65 + 0.5 * np.exp(-distance / 6))
        price = (value + 14_000 * garden) * float(np.exp(random.normal(0, 0.06)))
        known = year if random.random() > 0.03 else ""
        file.writerow([f"{area:.0f}", rooms, known, f"{distance:.1f}", city, "yes" if garden else "no",
                       100 * round(price / 100)])  # fmt: skip
    return text.getvalue().encode()
