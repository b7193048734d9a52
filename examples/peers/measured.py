#!/usr/bin/env python3
"""Runs a load tool to its end and prints one line of JSON: what it answered and what it cost.

    measured.py TOOL RESULTS LOG COMMAND...

TOOL     aiperf, guidellm or plimsoll: says how RESULTS is read
RESULTS  the folder (aiperf) or file (guidellm, plimsoll) where the command leaves its results
LOG      takes all that the command prints

`client_cpu_s` is user and system time of the command and of every process it started. Linux only.
"""

from __future__ import annotations

import ctypes
import json
import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
GRACE_SECONDS = 10


def run(command: list[str], log: Path) -> tuple[int, float, float]:
    """Exit status, wall seconds and CPU seconds of a command.

    The kernel credits a process's CPU time to whoever reaps it. Processes whose parent ended first would be lost to
    process 1; as their subreaper we inherit, reap and so count them.
    """
    if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "cannot become a subreaper")
    signal.signal(signal.SIGTERM, signal.default_int_handler)

    began = time.monotonic()
    with log.open("wb") as output:
        client = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
        )
    try:
        status = client.wait()
        wall = time.monotonic() - began
    except KeyboardInterrupt:
        os.killpg(client.pid, signal.SIGTERM)
        raise SystemExit(130) from None
    reap_the_rest()
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return status, wall, usage.ru_utime + usage.ru_stime


def reap_the_rest() -> None:
    deadline = time.monotonic() + GRACE_SECONDS
    while time.monotonic() < deadline:
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            time.sleep(0.05)
    print("warning: some of the tool's processes outlive it; their CPU time is not counted", file=sys.stderr)


def read_aiperf(folder: Path) -> dict:
    records = [
        json.loads(line)
        for file in folder.rglob("profile_export.jsonl")
        for line in file.read_text(encoding="utf-8").splitlines()
    ]
    measured = [record for record in records if record["metadata"]["benchmark_phase"] == "profiling"]
    failed = sum(record.get("error") is not None for record in measured)
    result = {"answer": None, "trials": 1, "requests": len(measured) - failed, "failed": failed}
    history_file = folder / "search_history.json"
    if history_file.exists():
        history = json.loads(history_file.read_text(encoding="utf-8"))
        best = (history.get("boundary_summary") or {}).get("feasible_max")
        result["answer"] = best["value"] if best else None
        result["trials"] = len(history["iterations"])
    return result


def read_guidellm(file: Path) -> dict:
    report = json.loads(file.read_text(encoding="utf-8"))
    totals = [benchmark["metrics"]["request_totals"] for benchmark in report["benchmarks"]]
    conclusions = [conclusion for conclusion in report.get("conclusions") or [] if conclusion]
    return {
        "answer": conclusions[0]["best_passing_streams"] if conclusions else None,
        "trials": len(totals),
        "requests": sum(total["successful"] for total in totals),
        "failed": sum(total["errored"] for total in totals),
    }


def read_plimsoll(file: Path) -> dict:
    """The summary of a search, or the one trial of `plimsoll measure`."""
    summary = json.loads(file.read_text(encoding="utf-8"))
    trials = summary.get("trials", [summary])
    answer = summary.get("answer") or {}
    return {
        "answer": (answer.get("load") or {}).get("concurrency"),
        "trials": len(trials),
        "requests": sum(trial["requests"]["completed"] for trial in trials),
        "failed": sum(trial["requests"]["failed"] for trial in trials),
    }


READERS = {"aiperf": read_aiperf, "guidellm": read_guidellm, "plimsoll": read_plimsoll}


def main() -> None:
    if len(sys.argv) < 5 or sys.argv[1] not in READERS:
        raise SystemExit(__doc__)
    tool, results, log, command = sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]), sys.argv[4:]
    status, wall, cpu = run(command, log)
    try:
        found = READERS[tool](results)
    except (OSError, ValueError, KeyError) as error:
        tail = "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-20:])
        raise SystemExit(f"{tail}\nerror: {tool} ended with status {status} and left no results ({error!r})") from None
    line = {
        "tool": tool,
        "answer": found["answer"],
        "trials": found["trials"],
        "wall_s": round(wall, 1),
        "client_cpu_s": round(cpu, 2),
        "requests": found["requests"],
        "failed": found["failed"],
        "exit_status": status,
    }
    print(json.dumps(line), flush=True)


if __name__ == "__main__":
    main()
