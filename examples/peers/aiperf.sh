#!/usr/bin/env bash
# NVIDIA AIPerf's search for the largest concurrency under an SLO. Prints one line of JSON: answer and cost.
set -euo pipefail

# shellcheck source=peers.sh
source "$(dirname "${BASH_SOURCE[0]}")/peers.sh"

usage() {
  cat <<'TEXT'
usage: aiperf.sh URL [--tuned] [--ttft-ms 200] [--itl-ms MS] [--max-concurrency 64]

The recipe `max-concurrency-under-sla` as documented: its own search style and trial length.
--tuned   bisection (`--search-style monotonic`) with 60 requests a trial: much quicker
Limits are on the 95th percentile.
TEXT
}

[[ ${1:-} == http* ]] || { usage >&2; exit 2; }
url=$1 ttft=200 ceiling=64 flags=()
shift
while (($#)); do
  case $1 in
    --tuned) flags+=(--search-style monotonic --request-count 60); shift ;;
    --ttft-ms) ttft=$2; shift 2 ;;
    --itl-ms) flags+=(--itl-sla-ms "$2"); shift 2 ;;
    --max-concurrency) ceiling=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done

aiperf "$url" --search-recipe max-concurrency-under-sla --ttft-sla-ms "$ttft" \
  --concurrency-min 1 --concurrency-max "$ceiling" "${flags[@]}"
