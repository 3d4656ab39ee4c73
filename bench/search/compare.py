"""Statistics of two samplers' regrets. Used by `run.py`."""

import sys

import numpy as np
from scipy.stats import mannwhitneyu

LEVEL = 0.01
RESAMPLES = 5_000
# Below it regrets are rounding.
LEAST = 1e-9


def regret(function, losses: list[list[float]]) -> float:
    """Final regret; of two objectives, the hypervolume that is missing."""
    from functions import hypervolume

    if function.objectives > 1:
        return max(function.optimum - hypervolume(losses), LEAST)
    return max(min(loss for (loss,) in losses) - function.optimum, LEAST)


def _holm(chances: list[float]) -> int:
    """Hypotheses refused at LEVEL (Holm's step-down)."""
    refused = 0
    for rank, chance in enumerate(sorted(chances)):
        if chance > LEVEL / (len(chances) - rank):
            break
        refused += 1
    return refused


def figures(part: str, rows: dict[str, tuple[list[float], list[float]]]) -> dict:
    """rows: by function, our regrets and the peer's, one a seed."""
    chances = []
    print(f"{part:<18} {'median regret':>14} {'Optuna':>12} {'ratio':>8} {'p(worse)':>9}", file=sys.stderr)
    for name, (ours, theirs) in rows.items():
        chances.append(mannwhitneyu(ours, theirs, alternative="greater").pvalue)
        mine, peer = np.median(ours), np.median(theirs)
        print(f"{name:<18} {mine:>14.5g} {peer:>12.5g} {mine / peer:>8.3f} {chances[-1]:>9.4f}", file=sys.stderr)
    rng = np.random.default_rng(0)

    def ratio(resample: bool) -> float:
        draw = (lambda x: rng.choice(x, len(x))) if resample else (lambda x: x)
        return float(np.exp(np.mean([np.log(np.median(draw(a)) / np.median(draw(b))) for a, b in rows.values()])))

    low, high = np.quantile([ratio(True) for _ in range(RESAMPLES)], [0.025, 0.975])
    middle = ratio(False)
    print(f"{part}: regret over Optuna's {middle:.3f} [{low:.3f}, {high:.3f}], losses {_holm(chances)}\n", file=sys.stderr)
    shown = {"regret": low, "regret_middle": middle, "regret_high": high}
    made = {f"{part}_{key}": {"value": round(float(value), 4), "unit": "x"} for key, value in shown.items()}
    return made | {f"{part}_losses": {"value": _holm(chances), "unit": "functions"}}
