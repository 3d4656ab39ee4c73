"""The functions that samplers are compared on: a search space, an evaluation and the optimum each. Used by `run.py`."""

import functools
import math
import os
import tempfile
from dataclasses import dataclass
from typing import Callable

import cocoex
import numpy as np


@dataclass(frozen=True)
class Function:
    name: str
    space: dict  # of elastune's documents: {name: {"type": .., "min": .., "max": ..}}
    evaluate: Callable[[dict], list[float]]  # losses, one an objective
    optimum: float  # lowest loss; of two objectives the highest hypervolume

    @property
    def objectives(self) -> int:
        return 2 if self.name.startswith("zdt") else 1


def _floats(count: int, low: float, high: float) -> dict:
    return {f"x{i}": {"type": "float", "min": low, "max": high} for i in range(count)}


def _vector(params: dict) -> np.ndarray:
    return np.array([params[f"x{i}"] for i in range(len(params))], dtype=float)


def _branin(params: dict) -> list[float]:
    x, y = params["x0"], params["x1"]
    bowl = y - 5.1 / (4 * math.pi**2) * x**2 + 5 / math.pi * x - 6
    return [bowl**2 + 10 * (1 - 1 / (8 * math.pi)) * math.cos(x) + 10]


_H_A = np.array([[10, 3, 17, 3.5, 1.7, 8], [0.05, 10, 17, 0.1, 8, 14], [3, 3.5, 1.7, 10, 17, 8], [17, 8, 0.05, 10, 0.1, 14]])
_H_P = 1e-4 * np.array(
    [
        [1312, 1696, 5569, 124, 8283, 5886],
        [2329, 4135, 8307, 3736, 1004, 9991],
        [2348, 1451, 3522, 2883, 3047, 6650],
        [4047, 8828, 8732, 5743, 1091, 381],
    ]
)


def _hartmann(params: dict) -> list[float]:
    inner = (_H_A * (_vector(params) - _H_P) ** 2).sum(axis=1)
    return [float(-np.array([1.0, 1.2, 3.0, 3.2]) @ np.exp(-inner))]


def _ackley(params: dict) -> list[float]:
    x = _vector(params)
    return [float(20 + math.e - 20 * np.exp(-0.2 * np.sqrt(np.mean(x**2))) - np.exp(np.mean(np.cos(2 * np.pi * x))))]


def _rosenbrock(params: dict) -> list[float]:
    x = _vector(params)
    return [float(np.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2))]


def _zdt(params: dict, third: bool) -> list[float]:
    x = _vector(params)
    g = 1 + 9 * np.mean(x[1:])
    ratio = x[0] / g
    wave = ratio * math.sin(10 * math.pi * x[0]) if third else 0.0
    return [float(x[0]), float(g * (1 - math.sqrt(ratio) - wave))]


REFERENCE = (11.0, 11.0)


def hypervolume(points: list[list[float]]) -> float:
    """What two losses dominate below REFERENCE."""
    area, height = 0.0, REFERENCE[1]
    for x, y in sorted(points):
        if x < REFERENCE[0] and y < height:
            area += (REFERENCE[0] - x) * (height - y)
            height = y
    return area


def _zdt_best(third: bool) -> float:
    front = np.linspace(0, 1, 200_001)
    ys = 1 - np.sqrt(front) - (front * np.sin(10 * np.pi * front) if third else 0.0)
    return hypervolume(np.stack([front, ys], axis=1).tolist())


def _bbob(number: int) -> Function:
    suite = cocoex.Suite("bbob", "instances: 1", f"dimensions: 5 function_indices: {number}")
    problem = suite.get_problem(0)
    # COCO tells where the optimum lies only by a file in the current folder.
    here = os.getcwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            problem._best_parameter("print")
            best = np.loadtxt("._bbob_problem_best_parameter.txt")
        finally:
            os.chdir(here)
    evaluate = lambda params: [float(problem(_vector(params)))]  # noqa: E731
    return Function(f"f{number}", _floats(5, -5, 5), evaluate, float(problem(best)))


@functools.cache
def all_functions() -> dict[str, Function]:
    mixed = _floats(5, -5, 10) | {f"x{i}": {"type": "int", "min": -5, "max": 10} for i in range(2)}
    listed = [
        Function("branin", _floats(1, -5, 10) | {"x1": {"type": "float", "min": 0, "max": 15}}, _branin, 0.39788735772973816),
        Function("hartmann6", _floats(6, 0, 1), _hartmann, -3.322368011415515),
        Function("ackley10", _floats(10, -32.768, 32.768), _ackley, 0.0),
        *[_bbob(number) for number in (1, 8, 15, 21, 24)],
        Function("rosenbrock_mixed", mixed, _rosenbrock, 0.0),
        Function("zdt1", _floats(30, 0, 1), lambda params: _zdt(params, False), _zdt_best(False)),
        Function("zdt3", _floats(30, 0, 1), lambda params: _zdt(params, True), _zdt_best(True)),
    ]
    return {function.name: function for function in listed}
