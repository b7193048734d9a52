#!/usr/bin/env python3
"""How noisy a server is, from run folders of plimsoll: what the search's assumptions are held against.

    noise.py constant RUN        a long `plimsoll measure` at one load: slow noise and the design effect of counts
    noise.py steps RUN...        searches: is a level reached from below another than the same reached from above?

`constant` needs the program `zstd` to read the requests. Both need numpy.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path

import numpy as np

BIN_SECONDS = 2.0
TRIAL_REQUESTS = (20, 60, 200)


def completed(run: Path) -> list[dict]:
    """The measured requests that completed, in the order in which they ended."""
    text = subprocess.run(["zstd", "-dcq", run / "requests.jsonl.zst"], check=True, capture_output=True, text=True).stdout
    records = [json.loads(line) for line in text.splitlines()]
    records = [r for r in records if r["phase"] == "measured" and r["outcome"]["kind"] == "completed"]
    return sorted(records, key=lambda record: record["ended"])


def slow_noise(at: np.ndarray, values: np.ndarray) -> tuple[float, float]:
    """Sd (log scale) and correlation time, seconds, of an Ornstein-Uhlenbeck process, from the autocovariance of the
    means of bins. Noise of its own in each bin has no covariance with other bins, so lag 0 is left out."""
    bins = ((at - at[0]) / BIN_SECONDS).astype(int)
    means = np.array([values[bins == b].mean() if (bins == b).any() else np.nan for b in range(bins[-1] + 1)])
    means -= np.nanmean(means)
    lags = np.arange(1, min(61, len(means) // 4))
    covariance = np.array([np.nanmean(means[lag:] * means[:-lag]) for lag in lags])
    best = (math.inf, 0.0, 0.0)
    for tc in np.geomspace(2, 120, 60):
        shape = np.exp(-lags * BIN_SECONDS / tc)
        variance = max(0.0, (covariance @ shape) / (shape @ shape))
        error = float(((covariance - variance * shape) ** 2).sum())
        best = min(best, (error, math.sqrt(variance), tc))
    return best[1], best[2]


def design_effect(values: np.ndarray, size: int) -> float:
    """Variance of the number of samples over the 95th percentile in trials of `size`, in those of a binomial."""
    over = values > np.quantile(values, 0.95)
    trials = over[: len(over) // size * size].reshape(-1, size).sum(axis=1)
    return float(trials.var(ddof=1) / (size * 0.05 * 0.95))


def constant(run: Path) -> None:
    records = completed(run)
    figures = {
        "TTFT": np.array([r["first"] - r["sent"] for r in records]),
        "TPOT": np.array([(r["last"] - r["first"]) / max(1, len(r["gaps_us"])) for r in records]),
        "E2E": np.array([r["ended"] - r["sent"] for r in records]),
    }
    at = np.array([record["ended"] for record in records])
    print(f"{len(records)} requests in {at[-1] - at[0]:.0f} s")
    print("figure   p50 ms   p95 ms   sd log   slow sd   slow s   design effect of trials of " + ", ".join(map(str, TRIAL_REQUESTS)))
    for name, values in figures.items():
        sd, seconds = slow_noise(at, np.log(values))
        effects = "  ".join(f"{design_effect(values, size):6.2f}" for size in TRIAL_REQUESTS)
        p50, p95 = np.quantile(values, [0.5, 0.95]) * 1000
        print(f"{name:6} {p50:8.1f} {p95:8.1f} {np.log(values).std():8.3f} {sd:9.4f} {seconds:8.1f}   {effects}")


def steps(runs: list[Path]) -> None:
    """Trials at the same load, by the side that the load was reached from; one variance for all."""
    by_load: dict[int, dict[str, list[float]]] = {}
    for run in runs:
        before = None
        for line in (run / "journal.jsonl").read_text().splitlines():
            outcome = json.loads(line).get("trial_ended", {}).get("outcome")
            if outcome is None:
                continue
            load = outcome["spec"]["load"]["concurrency"]
            if before and before != load and outcome["spec"]["kind"] in ("measure", "confirm"):
                side = "from above" if before > load else "from below"
                by_load.setdefault(load, {}).setdefault(side, []).append(outcome["readings"][0]["margin"])
            before = load
    print("load   side         trials   mean of figure/limit   sd log")
    differences, weights, squares, freedom = [], [], 0.0, 0
    for load, sides in sorted(by_load.items()):
        for side, margins in sorted(sides.items()):
            sd = np.std(margins, ddof=1) if len(margins) > 1 else math.nan
            print(f"{load:4}   {side}   {len(margins):6}   {math.exp(np.mean(margins)):20.3f}   {sd:6.3f}")
            squares += np.var(margins) * len(margins)
            freedom += len(margins) - 1
        if len(sides) == 2:
            above, below = sides["from above"], sides["from below"]
            differences.append(np.mean(above) - np.mean(below))
            weights.append(len(above) * len(below) / (len(above) + len(below)))
    if differences and freedom:
        mean = float(np.average(differences, weights=weights))
        error = math.sqrt(squares / freedom / sum(weights))
        print(f"from above against from below, at equal loads: {100 * mean:+.1f} % (standard error {100 * error:.1f} %)")


def main(arguments: list[str]) -> int:
    if len(arguments) == 2 and arguments[0] == "constant":
        constant(Path(arguments[1]))
    elif len(arguments) >= 2 and arguments[0] == "steps":
        steps([Path(run) for run in arguments[1:]])
    else:
        print(__doc__, file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
