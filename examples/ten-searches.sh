#!/usr/bin/env bash
# Ten whole searches on one running server, with ten seeds: how far the answers spread, beside the interval that each
# of them states. Prints a line a search and a summary.
set -euo pipefail

usage() {
  cat >&2 <<'TEXT'
usage: ten-searches.sh URL [PLIMSOLL SEARCH FLAGS]

  ten-searches.sh http://127.0.0.1:8100 --slo 'ttft p95 < 200ms' --concurrency 1..64 --isl 100 --osl 64

environment:
  PLIMSOLL   the plimsoll program; else the one on PATH, else cargo builds it
  SEEDS      how many searches (10)
  OUT        where the run folders go (runs/ten-searches)
TEXT
}

NAME=ten-searches
# shellcheck source=common/basics.sh
source "$(dirname "${BASH_SOURCE[0]}")/common/basics.sh"

[[ ${1:-} == http* ]] || { usage; exit 2; }
url=$1
shift
out=${OUT:-runs/ten-searches}
program=$(plimsoll_program)
for seed in $(seq "${SEEDS:-10}"); do
  "$program" search --url "$url" "$@" --seed "$seed" --out "$out" --quiet --json
done | python3 -c '
import json, statistics, sys

decoder, text, answers = json.JSONDecoder(), sys.stdin.read().strip(), []
while text:
    document, end = decoder.raw_decode(text)
    text = text[end:].lstrip()
    answer, cost = document["answer"], document["cost"]
    load = next(iter((answer["load"] or {"none": None}).values()))
    interval = answer["interval"] or {"low": None, "high": None}
    answers.append((load, interval["low"], interval["high"], cost["seconds"], cost["requests"], cost["client_cpu_seconds"]))
    print("{} ({}-{})  {:.1f} s  {} requests  {:.2f} s of client CPU".format(*answers[-1]))
loads = [a[0] for a in answers if a[0] is not None]
if loads:
    median = statistics.median(loads)
    inside = sum(a[1] is not None and a[1] <= median and (a[2] is None or median <= a[2]) for a in answers)
    print("answers {} to {}, median {}; {} of {} intervals hold the median".format(min(loads), max(loads), median, inside, len(answers)))
    print("medians: {:.1f} s, {:.0f} requests, {:.2f} s of client CPU".format(*(statistics.median(a[k] for a in answers) for k in (3, 4, 5))))
'
