"""What commits during a run cost: one every 1,000 records, one every 10,000, and one at the end, durable and lazy."""

import shutil
import subprocess

from . import data
from .harness import FOLDER, MIB, PMAWK, Run, environment, median, remove_heap, settle, spread

RECORDS = 1_000_000
ROUNDS = 3
PROGRAM = "{ n[$1]++ }"
FLUSHES = ("fdatasync", "fsync", "msync", "sync_file_range", "syncfs")


def flushes(command):
    """How often a command asks the kernel to flush a file; None if nobody can tell. Not timed: being watched is slow."""
    if not shutil.which("strace"):
        return None
    report = FOLDER / "strace"
    done = subprocess.run(
        ["strace", "-f", "-q", "-o", report, "-e", f"trace={','.join(FLUSHES)}", *command],
        env=environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        check=False,
    )
    if done.returncode != 0:
        return None
    return sum(any(f" {name}(" in line for name in FLUSHES) for line in report.read_text().splitlines())


def run(report, small):
    records = 100_000 if small else RECORDS
    text = data.generated("keys", records)
    report.say(f"Program: `{PROGRAM}` on {records:,} lines of the drifting log, into a new heap. Median of {ROUNDS}, in turn.")
    report.say("Dirtied: whole pages of the heap and its journal that became dirty. Passed: bytes given to write and its like.")
    heap = FOLDER / "commits.heap"
    plain = [str(PMAWK), PROGRAM, str(text)]
    commands = {}
    for kind, option in (("durable", []), ("lazy", ["--lazy"])):
        for every in (1_000, 10_000, 0):
            commands[kind, every] = [
                str(PMAWK),
                f"--persist={heap}",
                *option,
                *([f"--commit-every={every}"] if every else []),
                PROGRAM,
                str(text),
            ]
    runs = {key: [] for key in commands}
    volatile = []
    for number in range(ROUNDS):
        print(f"  round {number + 1} of {ROUNDS}", flush=True)
        volatile.append(Run(plain))
        for key, command in commands.items():
            remove_heap(heap)
            settle()
            runs[key].append(Run(command))
    rows = []
    for (kind, every), of in runs.items():
        remove_heap(heap)
        asked = flushes(commands[kind, every])
        # The last commit is that of the end of the run, which has records of its own only if they do not come out even.
        commits = max(1, -(-records // every)) if every else 1
        wall = median(of, "wall")
        rows.append(
            [
                kind,
                f"every {every:,}" if every else "at the end",
                f"{wall:.2f} ±{spread([run.wall for run in of]):.2f}",
                f"{records / wall:,.0f}",
                f"{wall / median(volatile, 'wall'):.2f}",
                f"{commits:,}",
                f"{median(of, 'written') / commits / 1024:,.1f}",
                f"{median(of, 'passed') / commits / 1024:,.1f}",
                "?" if asked is None else f"{asked / commits:.2f}",
                f"{(wall - median(volatile, 'wall')) / commits * 1e3:.2f}",
            ]
        )
    remove_heap(heap)
    report.table(
        [
            "",
            "commits",
            "wall (s)",
            "records / s",
            "wall / volatile",
            "count",
            "dirtied / commit (KiB)",
            "passed / commit (KiB)",
            "flushes / commit",
            "beyond volatile / commit (ms)",
        ],
        rows,
    )
    report.say(
        f"(Volatile: {median(volatile, 'wall'):.2f} s. Written over the whole run, most: {max(median(of, 'written') for of in runs.values()) / MIB:,.0f} MiB.)"
    )
