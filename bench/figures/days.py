"""The experiment of the SDC 2022 talk: a log a day, a script that numbers and counts what comes, and a report of all of it every
day. Five ways to go on from yesterday, each day's run and the flush of what it left (the report, and the heap if there is one)
timed apart.

Flushes are of the files in question, not of the machine (sync), on which others may be busy.
"""

import dataclasses
import os
import shutil
import statistics
import time

from . import data
from .harness import (
    FOLDER,
    MEMORY,
    MIB,
    PMAWK,
    Run,
    allocated,
    file_system,
    fingerprint,
    first_line,
    gawk,
    heap_files,
    pm_gawk,
    remove_heap,
)
from .rows import PROGRAMS

DAYS = 100
LINES = 50_000
LAST = 5  # the days that the targets speak of
NAIVE = 3  # the days on which the naive way is taken: it depends on nothing, and it is slow
GAWK_HEAP = 4 << 30
SCRIPT = str(PROGRAMS / "sdc.awk")
BEGIN = str(PROGRAMS / "sdc-begin.awk")


@dataclasses.dataclass
class Way:
    """How one way's day is run, and which files are to be on the disk after it besides the report."""

    name: str
    command: list
    extra: dict = dataclasses.field(default_factory=dict)
    files: list = dataclasses.field(default_factory=list)
    # Reads the last report instead of keeping anything else.
    reloads: bool = False
    naive: bool = False
    days: list = dataclasses.field(default_factory=list)

    def last(self, what, count=LAST):
        return statistics.median(getattr(day, what) for day in self.days[-count:])


@dataclasses.dataclass
class Day:
    run: float
    sync: float
    written: int
    peak_kib: int

    @property
    def total(self):
        return self.run + self.sync


def flush(paths):
    """Seconds until files are on their medium."""
    start = time.perf_counter()
    for path in paths:
        if path.exists():
            file = os.open(path, os.O_RDWR)
            os.fsync(file)
            os.close(file)
    return time.perf_counter() - start


def take(way, logs, folder):
    """One day of one way."""
    report, last = folder / "report", folder / "report.last"
    words = [SCRIPT, *logs] if way.naive else [SCRIPT, logs[-1]]
    if way.reloads:
        words = [BEGIN, "-v", f"summary={last}", "-f", *words]
    done = Run([*way.command, "-f", *map(str, words)], way.extra, output=report)
    sync = flush([report, *way.files])
    report.rename(last)
    way.days.append(Day(done.wall, sync, done.written, done.peak_kib))
    return last


def ways_here(report, folder):
    ways = [Way("naive: all logs, gawk", [gawk()], naive=True), Way("BEGIN block, gawk", [gawk()], reloads=True)]
    if shutil.which("mawk"):
        ways.append(Way("BEGIN block, mawk", ["mawk"], reloads=True))
    for name, path in (("pm-gawk, heap in memory", MEMORY / "perdure-bench.pma"), ("pm-gawk, heap on disk", folder / "gawk.pma")):
        found = pm_gawk(path, GAWK_HEAP) if os.access(path.parent, os.W_OK) else None
        if found:
            report.say(f"{name}: {first_line([found[0][-1], '--version'])}.")
            ways.append(Way(name, *found, files=[path]))
        else:
            report.say(f"Not here: {name}.")
    for name, option in (("pmawk, durable", []), ("pmawk, lazy", ["--lazy"])):
        heap = folder / f"{name[7:]}.heap"
        remove_heap(heap)
        ways.append(Way(name, [str(PMAWK), f"--persist={heap}", *option], files=heap_files(heap)))
    return ways


def run(report, small):
    days, lines = (10, 20_000) if small else (DAYS, LINES)
    folder = FOLDER / "days"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    logs = [data.generated("keys", lines, day * lines) for day in range(days)]
    report.say(
        f"{days} days of {lines:,} lines each, on {file_system(FOLDER)}; the script bench/awk/sdc.awk, which prints all names every day."
    )
    report.say("The BEGIN block is bench/awk/sdc-begin.awk: it reloads yesterday's report. Written: what the run made dirty for the disk.")
    ways = ways_here(report, folder)
    places = {way.name: folder / str(number) for number, way in enumerate(ways)}
    for place in places.values():
        place.mkdir()
    try:
        for day in range(days):
            answers = {}
            for way in ways:
                if way.naive and day < days - NAIVE:
                    continue
                answer = take(way, logs[: day + 1], places[way.name])
                if day in (days // 2, days - 1):
                    answers.setdefault(fingerprint(answer, in_order=False), []).append(way.name)
            if len(answers) > 1:
                raise RuntimeError(f"day {day + 1}: the ways do not agree: {list(answers.values())}")
            if (day + 1) % 10 == 0:
                print(f"  day {day + 1}: " + ", ".join(f"{way.name} {way.days[-1].total:.2f}" for way in ways if way.days), flush=True)
        names = sum(1 for _ in open(places[ways[-1].name] / "report.last", "rb")) - 1
        report.say(f"Names at the end: {names:,}. Medians of the last {LAST} days (naive: {NAIVE}).")
        show(report, ways)
        conclude(report, ways)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        (MEMORY / "perdure-bench.pma").unlink(missing_ok=True)


def show(report, ways):
    naive = ways[0].last("total")
    rows = []
    for way in ways:
        kept = sum(allocated(path) for path in way.files if path.exists())
        everything = "" if way.naive else f"{sum(day.total for day in way.days):.1f}"
        rows.append(
            [
                way.name,
                f"{way.last('run'):.2f}",
                f"{way.last('sync'):.2f}",
                f"{way.last('total'):.2f}",
                f"{naive / way.last('total'):.1f}",
                f"{way.last('written') / MIB:.1f}",
                f"{kept / MIB:.0f}" if way.files else "",
                f"{way.last('peak_kib') / 1024:.0f}",
                everything,
            ]
        )
    report.table(
        [
            "way, on a late day",
            "run (s)",
            "sync (s)",
            "total (s)",
            "times naive",
            "written (MiB)",
            "heap (MiB)",
            "peak memory (MiB)",
            "all days (s)",
        ],
        rows,
    )


def conclude(report, ways):
    named = {way.name: way for way in ways}
    durable = named["pmawk, durable"].last("total")
    rows = []
    for way in ways:
        if way.reloads:
            ratio = durable / way.last("total")
            rows.append([f"total, pmawk durable to {way.name}", "<= 1.00", f"{ratio:.2f}", ratio <= 1])
    if "pm-gawk, heap on disk" in named:
        ratio = named["pm-gawk, heap on disk"].last("total") / durable
        rows.append(["total, pm-gawk on disk to pmawk durable", ">= 3.00", f"{ratio:.2f}", ratio >= 3])
    report.targets(rows)
