"""Every row of rows.py, on every awk that is here and on the hand-written programs of bench/limit/: the throughput of the
volatile awk.

The awks run in turn (A B C A B C ...). One that is hopeless on a row is not waited for: beyond the row's limit it is killed and
noted as slower than that, and one that is slow, and far from the best other, is not asked again.
"""

import math
import os
import statistics
import subprocess

from . import plot
from .harness import Run, compiled, environment, fingerprint, median, output_folder, peers, spread
from .rows import EXTENDED, ROWS, SMALL

ROUNDS = 3
SHORT_SECONDS = 0.5  # rows on which the best other is faster than this have
SHORT_ROUNDS = 7
AGAIN = 1.5  # times as slow as the best other, and it is measured once
AGAIN_SECONDS = 4  # below that, everything is measured again
MEAN_TARGET = 2
WORDCOUNT_TARGET = 3
LIMIT_TARGET = 2
OURS = "pmawk"
HAND = "hand-written"
JOBS = os.cpu_count() or 1
SHARED = f"pmawk -j {JOBS}"


class Figures:
    """What one awk took on one row."""

    def __init__(self):
        self.runs = []
        self.over = None
        self.asked = 0

    @property
    def wall(self):
        return median(self.runs, "wall") if self.runs else math.inf

    def text(self):
        if not self.runs:
            return f"> {self.over}" if self.over else ""
        if len(self.runs) == 1:
            return seconds(self.wall) + (" (once)" if self.asked > 1 else "")
        return f"{seconds(self.wall)} ±{spread([run.wall for run in self.runs]):.{digits(self.wall)}f}"


def digits(value):
    return 2 if value >= 0.1 else 4


def seconds(value):
    return f"{value:.{digits(value)}f}"


def run(report, small, names):
    unknown = set(names) - {row.name for row in ROWS}
    if unknown:
        raise SystemExit(f"bench awk: no row {', '.join(sorted(unknown))}; there are {', '.join(row.name for row in ROWS)}")
    rows = [row for row in ROWS if not names or row.name in names]
    smaller = SMALL if small else 1
    awks = peers(report)
    report.say(
        "LC_ALL=C for all. Wall seconds: the median of three runs (7 where they are short, 100 for start-up), the awks in turn, and half"
    )
    report.say(
        'of their range (for start-up, their median deviation). "> N": killed after N s. "once": slow, and far from the best other, so'
    )
    report.say("not asked again.")
    told = []
    for row in rows:
        told.append((row, measure(row, awks, smaller)))
    if not small:
        report.picture(
            "awk",
            plot.speeds([(row.name, {name: of.wall for name, of in figures.items() if name not in (HAND, SHARED)}) for row, figures in told], OURS),
            "speed of each awk on each row",
        )
    show(report, told, list(awks))
    conclude(report, told)
    show_shared(report, told, awks, smaller)


def measure(row, awks, smaller):
    """Name to figures, of the awks and of the hand-written program if the row has one."""
    commands = {name: [*command, *row.words_for(name, smaller)] for name, command in awks.items() if name not in row.unable}
    if row.limit_program:
        program = compiled(f"limit/{row.limit_program}.c")
        commands[HAND] = [str(program), *map(str, row.operands(smaller)), *row.limit_words]
    if row.operands(smaller):
        commands[SHARED] = [*awks[OURS], "-j", str(JOBS), *row.words_for(OURS, smaller)]
    figures = {name: Figures() for name in commands}
    output = output_folder() / "perdure-bench-output"
    answers = {}
    number = 0
    try:
        while number < rounds(row, smaller, figures):
            best = best_other(figures)[1]
            for name, command in commands.items():
                own = figures[name]
                if own.over or (number > 0 and name not in (OURS, SHARED) and own.wall > max(AGAIN * best, AGAIN_SECONDS)):
                    continue
                once = Run(command, limit=0 if name in (OURS, SHARED) else row.limit, output=output)
                if once.over:
                    own.over = row.limit
                    continue
                own.runs.append(once)
                if number == 0:
                    answers.setdefault(fingerprint(output, row.in_order), []).append(name)
            number += 1
            for own in figures.values():
                own.asked = number
    finally:
        output.unlink(missing_ok=True)
    if len(answers) != 1:
        raise RuntimeError(f"row {row.name}: the awks do not agree: {list(answers.values())}")
    print(f"  {row.name}: " + ", ".join(f"{name} {of.text()}" for name, of in figures.items()), flush=True)
    return figures


def rounds(row, smaller, figures):
    """How many there are to be, as far as it is known by now: more where runs are short."""
    if smaller > 1:
        return 1 if row.rounds <= ROUNDS else 10
    return max(row.rounds, SHORT_ROUNDS if best_other(figures)[1] < SHORT_SECONDS else ROUNDS)


def best_other(figures):
    """Name and seconds of the fastest peer."""
    others = [(name, of.wall) for name, of in figures.items() if name not in (OURS, HAND, SHARED)]
    return min(others, key=lambda item: item[1], default=("none", math.inf))


def show(report, told, names):
    if any(HAND in figures for _, figures in told):
        names = [*names, HAND]
    report.table(
        ["wall (s)", *names], [[row.name, *(figures[name].text() if name in figures else "" for name in names)] for row, figures in told]
    )
    memory = [
        [
            row.name,
            *(f"{median(figures[name].runs, 'peak_kib') / 1024:.0f}" if name in figures and figures[name].runs else "" for name in names),
        ]
        for row, figures in told
    ]
    report.table(["peak memory (MiB)", *names], memory)
    cpu = [
        [row.name, *(seconds(median(figures[name].runs, "cpu")) if name in figures and figures[name].runs else "" for name in names)]
        for row, figures in told
    ]
    report.table(["user + system (s)", *names], cpu)
    report.say("Rows:")
    for row, _ in told:
        words = " ".join(row.own_options.get(OURS, row.options))
        program = f"bench/awk/{row.program}" if row.program.endswith(".awk") else f"`{row.program}`"
        others = ""
        if row.portable:
            able = sorted({*EXTENDED, *row.own_options})
            others = f"; those other than {', '.join(able)} run bench/awk/{row.portable}"
        others += "".join(f"; {name} {why}" for name, why in row.unable.items())
        report.say(f"- {row.name}: {row.about}: {words + ' ' if words else ''}{program}{others}")


def conclude(report, told):
    targets, gains = [], []
    for row, figures in told:
        name, theirs = best_other(figures)
        theirs, ours = min(theirs, row.limit), figures[OURS].wall
        gain = theirs / ours
        gains.append(gain)
        wanted = WORDCOUNT_TARGET if row.name.startswith("wordcount") else 1
        target = f">= {wanted}.00" if wanted > 1 else "> 1.00"
        targets.append(
            [
                f"{row.name}: {seconds(ours)} s; best other {name}, {seconds(theirs)} s",
                target,
                f"{gain:.2f}",
                gain >= wanted if wanted > 1 else gain > 1,
            ]
        )
    mean = statistics.geometric_mean(gains)
    if len(told) > 1:
        targets.append([f"geometric mean of {len(gains)} rows", f">= {MEAN_TARGET}.00", f"{mean:.2f}", mean >= MEAN_TARGET])
    for row, figures in told:
        if HAND in figures:
            ratio = figures[OURS].wall / figures[HAND].wall
            targets.append(
                [
                    f"{row.name}: time to the hand-written program's ({seconds(figures[HAND].wall)} s)",
                    f"<= {LIMIT_TARGET}.00",
                    f"{ratio:.2f}",
                    ratio <= LIMIT_TARGET,
                ]
            )
    report.say("Targets: how many times as fast as the best other awk, and how much slower than a program made for the question.")
    report.targets(targets)
    lost = [row.name for row, figures in told if best_other(figures)[1] <= figures[OURS].wall]
    report.say(f"Rows lost: {', '.join(lost)}." if lost else "No row is lost.")


def show_shared(report, told, awks, smaller):
    """What several processes do for one, and why not, where they do not."""
    rows = []
    for row, figures in told:
        if SHARED not in figures:
            continue
        ours, shared = figures[OURS].wall, figures[SHARED].wall
        rows.append([row.name, seconds(ours), seconds(shared), f"{ours / shared:.2f}", explanation(row, awks, smaller)])
    if rows:
        report.say(f"Several processes for one input, {JOBS} of them, with the same output:")
        report.table(["row", "one (s)", f"-j {JOBS} (s)", "speed-up", "what was done"], rows)


def explanation(row, awks, smaller):
    command = [*awks[OURS], "-j", str(JOBS), "--explain-parallel", *row.words_for(OURS, smaller)]
    done = subprocess.run(command, env=environment(), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False)
    lines = [line.removeprefix("pmawk: -j: ") for line in done.stderr.decode().splitlines()]
    reasons = [line.split(": ", 2)[-1] for line in lines if line.startswith("one process")]
    return reasons[0] if reasons else lines[-1] if lines else ""
