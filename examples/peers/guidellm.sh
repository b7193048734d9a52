#!/usr/bin/env bash
# guidellm's search for the largest concurrency at which 95 % of requests meet the limits. Prints one line of JSON:
# answer and cost.
set -euo pipefail

# shellcheck source=peers.sh
source "$(dirname "${BASH_SOURCE[0]}")/peers.sh"

usage() {
  cat <<'TEXT'
usage: guidellm.sh URL [--ttft-ms 200] [--tpot-ms MS] [--max-concurrency 64] [--requests 60]

The profile `goodput`: doubles from 4 streams, then bisects. --requests is the size of one probe.
TEXT
}

[[ ${1:-} == http* ]] || { usage >&2; exit 2; }
url=$1 ttft=200 tpot='' ceiling=64 requests=60
shift
while (($#)); do
  case $1 in
    --ttft-ms) ttft=$2; shift 2 ;;
    --tpot-ms) tpot=$2; shift 2 ;;
    --max-concurrency) ceiling=$2; shift 2 ;;
    --requests) requests=$2; shift 2 ;;
    *) usage >&2; exit 2 ;;
  esac
done

guidellm "$url" \
  --profile "kind=goodput,initial_streams=4,max_streams=$ceiling,target_attainment=0.95" \
  --metrics "{\"kind\":\"generative\",\"slo\":{\"ttft_ms\":$ttft${tpot:+,\"tpot_ms\":$tpot}}}" \
  --constraint "kind=max_requests,count=$requests"
