#!/usr/bin/env bash
# One and the same fixed load by each tool: what does a request cost the client? Prints a line of JSON for each.
set -euo pipefail

# shellcheck source=peers.sh
source "$(dirname "${BASH_SOURCE[0]}")/peers.sh"

usage() {
  cat <<'TEXT'
usage: fixed-load.sh URL [--concurrency 4] [--requests 60] [TOOL..]

TOOL is plimsoll, aiperf or guidellm (default: all three, one after another).
Start-up is in the figures: run it with two values of --requests and divide the differences to leave it out.
TEXT
}

# plimsoll_load URL CONCURRENCY REQUESTS
plimsoll_load() {
  local folder program
  program=$(plimsoll_program)
  folder=$(new_folder plimsoll)
  # shellcheck disable=SC2016 # the inner shell expands it
  measured plimsoll "$folder/results.json" bash -c 'out=$1; shift; exec "$@" >"$out"' - "$folder/results.json" \
    "$program" measure --url "$1" --concurrency "$2" --requests "$3" --isl "$INPUT_TOKENS" --osl "$OUTPUT_TOKENS" --json
}

[[ ${1:-} == http* ]] || { usage >&2; exit 2; }
url=$1 concurrency=4 requests=60 tools=()
shift
while (($#)); do
  case $1 in
    --concurrency) concurrency=$2; shift 2 ;;
    --requests) requests=$2; shift 2 ;;
    plimsoll | aiperf | guidellm) tools+=("$1"); shift ;;
    *) usage >&2; exit 2 ;;
  esac
done
((${#tools[@]})) || tools=(plimsoll aiperf guidellm)

for tool in "${tools[@]}"; do
  case $tool in
    plimsoll) plimsoll_load "$url" "$concurrency" "$requests" ;;
    aiperf) aiperf "$url" --concurrency "$concurrency" --request-count "$requests" ;;
    guidellm)
      guidellm "$url" --profile "kind=concurrent,streams=$concurrency" --constraint "kind=max_requests,count=$requests"
      ;;
  esac
done
