"""elastune's side: the program `bench-search`, which answers lines of JSON. Used by `run.py`."""

import json
import random
import statistics
import subprocess

from peer import EVALUATIONS


class Program:
    def __init__(self, path: str):
        self.process = subprocess.Popen([path], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def call(self, request: dict) -> dict:
        self.process.stdin.write(json.dumps(request) + "\n")
        self.process.stdin.flush()
        return json.loads(self.process.stdout.readline())

    def begin(self, algorithm: str, space: dict, objectives: int, seed: int, most: int) -> None:
        metrics = [{"name": f"loss{i}", "goal": "minimize"} for i in range(objectives)]
        document = {"name": "bench", "metrics": metrics, "search_space": space, "budget": {"max_trials": most}}
        self.call({"study": document | {"algorithm": {"name": algorithm, "seed": seed}}})

    def losses(self, algorithm: str, function, seed: int) -> list[list[float]]:
        self.begin(algorithm, function.space, function.objectives, seed, EVALUATIONS)
        losses = []
        for _ in range(EVALUATIONS):
            (trial,) = self.call({"ask": 1})["trials"]
            losses.append(function.evaluate(trial["parameters"]))
            self.call({"tell": {trial["number"]: losses[-1]}})
        return losses

    def close(self) -> None:
        self.process.stdin.close()
        self.process.wait()


def _mixed(count: int) -> dict:
    """Parameters of every kind."""
    kinds = [
        {"type": "float", "min": 0, "max": 1},
        {"type": "float", "min": 1e-5, "max": 1e-1, "scale": "log"},
        {"type": "int", "min": 1, "max": 64},
        {"type": "categorical", "values": ["a", "b", "c", "d"]},
        {"type": "float", "min": -5, "max": 5},
    ]
    return {f"x{i}": kinds[i % len(kinds)] for i in range(count)}


def _time(program: Program, algorithm: str, trials: int, asks: int = 20) -> float:
    """Milliseconds of a suggestion, its fold included, in a study of so many trials: the median of some."""
    draw = random.Random(1)
    program.begin(algorithm, _mixed(10), 1, 1, trials + asks)
    # Told before they are asked for, so that the trials are random ones, which cost nothing.
    left = trials
    while left > 0:
        asked = program.call({"ask": min(left, 1000)})["trials"]
        program.call({"tell": {trial["number"]: [draw.random()] for trial in asked}})
        left -= len(asked)
    times = []
    for _ in range(asks):
        answer = program.call({"ask": 1})
        told = program.call({"tell": {answer["trials"][0]["number"]: [draw.random()]}})
        times.append(answer["ms"] + told["ms"])
    return statistics.median(times)


def speed(program: Program) -> dict:
    sizes = [("tpe", "tpe_1k_ms", 1_000), ("tpe", "tpe_10k_ms", 10_000), ("gp", "gp_200_ms", 200), ("gp", "gp_1k_ms", 1_000)]
    return {key: {"value": _time(program, algorithm, trials), "unit": "ms"} for algorithm, key, trials in sizes}
