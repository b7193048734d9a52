#!/usr/bin/env python3
"""Optuna's samplers on the tuner's self-test problem.

    plimsoll selftest --tune --table table.json
    pip install optuna torch
    python tune.py table.json --sampler tpe --searches 100

Same settings, same noise (4 % on the log), the default setting first, crashes as failed trials (which
Optuna's samplers leave out of their models). Recommended is the best value seen, as Optuna does.
Regret is 1 - true goodput of the recommended setting / best.
"""

import argparse
import json
import math
import random
import statistics

import optuna

LAUNCHES = 20
NOISE = 0.04
AFTER = (10, 15, 20)
DEFAULT = {"max_num_seqs": 256, "max_num_batched_tokens": 2048, "kernels": "plain", "swap_space": 4}
LOG = ("max_num_seqs", "max_num_batched_tokens")


def sampler(name, seed):
    if name == "tpe":
        return optuna.samplers.TPESampler(seed=seed, n_startup_trials=5)
    if name == "gp":
        return optuna.samplers.GPSampler(seed=seed, n_startup_trials=5, deterministic_objective=False)
    return optuna.samplers.RandomSampler(seed=seed)


def search(name, seed, truth, values, best):
    noise = random.Random(seed)
    study = optuna.create_study(direction="maximize", sampler=sampler(name, seed))
    # Levels by index: Optuna's integers then are as evenly spaced as the levels are.
    study.enqueue_trial({k: v if k == "kernels" else values[k].index(v) for k, v in DEFAULT.items()})
    value = []
    for _ in range(LAUNCHES):
        trial = study.ask()
        setting = {}
        for knob, levels in values.items():
            if knob == "kernels":
                setting[knob] = trial.suggest_categorical(knob, levels)
            else:
                setting[knob] = levels[trial.suggest_int(knob, 0, len(levels) - 1)]
        true = truth[key(setting)]
        if true is None:
            study.tell(trial, state=optuna.trial.TrialState.FAIL)
        else:
            trial.set_user_attr("true", true)
            study.tell(trial, math.log(true) + NOISE * noise.gauss(0, 1))
        done = [t for t in study.get_trials(deepcopy=False) if t.value is not None]
        top = max(done, key=lambda t: t.value, default=None)
        value.append(top.user_attrs["true"] / best if top else 0.0)
    return value


def key(setting):
    return tuple(sorted(setting.items()))


def main():
    arguments = argparse.ArgumentParser()
    arguments.add_argument("table")
    arguments.add_argument("--sampler", choices=["tpe", "gp", "random"], default="tpe")
    arguments.add_argument("--searches", type=int, default=100)
    arguments = arguments.parse_args()
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    with open(arguments.table) as file:
        rows = json.load(file)
    truth = {key(row["setting"]): row["goodput"] for row in rows}
    best = max(value for value in truth.values() if value is not None)
    values = {k: sorted({row["setting"][k] for row in rows}) for k in DEFAULT}
    runs = [search(arguments.sampler, seed, truth, values, best) for seed in range(1, arguments.searches + 1)]
    for after in AFTER:
        regrets = sorted(1 - run[after - 1] for run in runs)
        q90 = regrets[min(len(regrets) - 1, math.ceil(0.9 * len(regrets)) - 1)]
        print(f"after {after}: {100 * statistics.median(regrets):.1f} % / {100 * q90:.1f} %")
    reached = sorted(max([k + 2 for k, value in enumerate(run) if value < 0.95], default=1) for run in runs)
    reach = [n if n <= LAUNCHES else f"> {LAUNCHES}" for n in reached]
    print(f"to stay above 95 %: {reach[len(reach) // 2]} / {reach[math.ceil(0.9 * len(reach)) - 1]}")


if __name__ == "__main__":
    main()
