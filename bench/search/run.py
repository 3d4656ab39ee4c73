"""`make bench-search`: elastune's searchers, through `propose` at its defaults, beside Optuna's of the same name. Prints a table
and the line of figures, which it also keeps as target/bench/search.json. PART=tpe,cmaes,gp,nsga2,speed does some only."""

import json
import os
import sys
from pathlib import Path

SINGLE = ["branin", "hartmann6", "ackley10", "f1", "f8", "f15", "f21", "f24"]
SEEDS = {"tpe": 20, "cmaes": 20, "gp": 10, "nsga2": 20}


def functions_of(part: str) -> list[str]:
    """Integers are not for CMA-ES; two objectives are for NSGA-II alone."""
    return {"cmaes": SINGLE, "nsga2": [*SINGLE, "rosenbrock_mixed", "zdt1", "zdt3"]}.get(part, [*SINGLE, "rosenbrock_mixed"])


def main() -> None:
    import compare
    import ours
    import peer
    from functions import all_functions

    load = os.getloadavg()[0]
    figures = {}
    seeds = int(os.environ.get("SEEDS", 0))
    chosen = (os.environ.get("PART") or "tpe,cmaes,gp,nsga2,speed").split(",")
    program = ours.Program(sys.argv[1])
    for part in [part for part in SEEDS if part in chosen]:
        rows = {}
        for name in functions_of(part):
            function, count = all_functions()[name], seeds or SEEDS[part]
            regrets = lambda run: [compare.regret(function, run(part, function, seed)) for seed in range(count)]  # noqa: E731
            rows[name] = (regrets(program.losses), regrets(peer.losses))
        figures |= compare.figures(part, rows)
    if "speed" in chosen:
        figures |= ours.speed(program)
    program.close()

    path = Path("target/bench/search.json")
    before = json.loads(path.read_text())["figures"] if path.exists() else {}
    report = {"bench": "search", "cores": len(os.sched_getaffinity(0)), "load": load, "figures": before | figures}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(report) + "\n")
    print(json.dumps(report))


if __name__ == "__main__":
    main()
