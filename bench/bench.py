#!/usr/bin/env python3
"""The figures: pmawk beside other awks, libperdure beside other ways to keep memory, in one run on one machine, with targets.

    ./x bench [awk-core|awk|query|commit|days|commits|bigger|msync-rows|msync|all] [--small]
    ./x bench awk [--small] [ROW ...]
    ./x bench near [--small] [APPLICATION ...]      nearsh; not part of all

Times of different machines do not compare, so everything is a ratio to a peer that ran in turn with us (A B C A B C ...).
Each run prints a table and leaves a dated record in bench/record/. --small is a rehearsal: its figures mean little, and
it leaves no record; a run of some rows alone leaves none either.
Data lies in .x/bench/, on the file system of the checkout; PERDURE_BENCH_FOLDER=/elsewhere moves it.
"""

import fcntl
import subprocess
import sys

sys.dont_write_bytecode = True  # what is made lies in .x/

from figures import awk, awk_core, bigger, commit, commits, days, msync, near, query  # noqa: E402
from figures.harness import FOLDER, RECORD, ROOT, Report, compiled, machine  # noqa: E402

PARTS = {"awk-core": awk_core.run, "query": query.run, "commit": commit.run, "awk": awk.run, "days": days.run, "commits": commits.run, "bigger": bigger.run, "msync": msync.run}
# What is asked for by its name only; and what takes names of its own.
ALONE = {"msync-rows": msync.run_rows, "near": near.run}
WITH_ROWS = ("awk", "near")


def main():
    words = [word for word in sys.argv[1:] if word != "--small"]
    small = "--small" in sys.argv[1:]
    what, rows = (words[0], words[1:]) if words else ("all", [])
    if what not in (*PARTS, *ALONE, "all") or (rows and what not in WITH_ROWS):
        sys.exit(f"bench: unknown: {' '.join(words)}; expected one of {', '.join([*PARTS, *ALONE])}, all; and --small or not; after {' and '.join(WITH_ROWS)}, rows")
    FOLDER.mkdir(parents=True, exist_ok=True)
    lock = open(FOLDER / "lock", "w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        sys.exit(f"bench: another run is busy in {FOLDER}, and each would slow the other down; wait for it")
    compiled("measure.c")
    if what == "near":
        subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "nearsh"], cwd=ROOT, check=True)
    elif not what.startswith("msync"):
        subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "pmawk"], cwd=ROOT, check=True)
    report = Report(what)
    machine(report)
    for name, part in [*PARTS.items(), *ALONE.items()]:
        if what == name or what == "all" and name in PARTS:
            report.say(f"\n## {name}\n")
            part(report, small, *([rows] if name in WITH_ROWS else []))
    if not small and not rows:
        report.save(RECORD)


if __name__ == "__main__":
    main()
