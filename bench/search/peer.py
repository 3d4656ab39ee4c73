"""Optuna's samplers on the functions, each (sampler, function, seed) once and then from the cache folder. Used by `run.py`;
alone (`peer.py gp 10`) it fills the cache."""

import json
import os
import sys
import warnings
from pathlib import Path

EVALUATIONS = 200


def folder() -> Path:
    import importlib.metadata as metadata

    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return cache / "elastune" / "bench" / "search" / f"optuna-{metadata.version('optuna')}"


def _sampler(name: str, seed: int):
    import optuna

    warnings.simplefilter("ignore", optuna.exceptions.ExperimentalWarning)
    made = {
        "tpe": lambda: optuna.samplers.TPESampler(seed=seed),
        "cmaes": lambda: optuna.samplers.CmaEsSampler(seed=seed),
        "gp": lambda: optuna.samplers.GPSampler(seed=seed),
        "nsga2": lambda: optuna.samplers.NSGAIISampler(seed=seed),
    }
    return made[name]()


def _run(sampler: str, function, seed: int) -> list[list[float]]:
    import optuna

    optuna.logging.disable_default_handler()
    kinds = {"float": optuna.distributions.FloatDistribution, "int": optuna.distributions.IntDistribution}
    space = {name: kinds[p["type"]](p["min"], p["max"]) for name, p in function.space.items()}
    study = optuna.create_study(directions=["minimize"] * function.objectives, sampler=_sampler(sampler, seed))
    losses = []
    for _ in range(EVALUATIONS):
        trial = study.ask(space)
        losses.append(function.evaluate(trial.params))
        study.tell(trial, losses[-1])
    return losses


def losses(sampler: str, function, seed: int) -> list[list[float]]:
    """Those of each evaluation, in order."""
    path = folder() / sampler / function.name / f"{seed}.json"
    if path.exists():
        return json.loads(path.read_text())
    path.parent.mkdir(parents=True, exist_ok=True)
    done = _run(sampler, function, seed)
    part = path.with_suffix(f".{os.getpid()}")
    part.write_text(json.dumps(done))
    part.rename(path)
    return done


if __name__ == "__main__":
    import torch
    from functions import all_functions
    from run import functions_of

    torch.set_num_threads(1)
    for seed in range(int(sys.argv[2])):
        for name in functions_of(sys.argv[1]):
            losses(sys.argv[1], all_functions()[name], seed)
