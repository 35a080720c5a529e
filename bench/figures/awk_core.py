"""The manual's word count: the build, volatile and in a heap on disk, in time, memory and bytes of heap."""

import statistics

from . import data
from .harness import FOLDER, MIB, PMAWK, Run, allocated, median, peers, pm_gawk, remove_heap, settle, write_once

ROUNDS = 3


def run(report, small):
    bytes_count = 20_000_000 if small else 200_000_000
    text = data.words_short(bytes_count)
    program = '{ n[$1]++ } END { print n["foo"] }'
    awks = peers(report)
    report.say(f"Input: the manual's generator, {bytes_count:,} bytes. Program: `{program}`. Median of {ROUNDS}, in turn.")
    heap, copy, theirs = FOLDER / "words.heap", FOLDER / "copy", FOLDER / "gawk.heap"
    runs = {name: [] for name in awks}
    persistent, write_seconds = [], []
    for number in range(ROUNDS):
        for name, command in awks.items():
            print(f"  round {number + 1} of {ROUNDS}: {name}", flush=True)
            runs[name].append(Run([*command, program, str(text)]))
        print(f"  round {number + 1} of {ROUNDS}: pmawk, persistent", flush=True)
        remove_heap(heap)
        settle()
        persistent.append(Run([str(PMAWK), f"--persist={heap}", program, str(text)]))
        content = heap.read_bytes()
        settle()
        write_seconds.append(write_once(content, copy))
        del content
    answers = {runs[name][0].output for name in runs} | {persistent[0].output}
    if len(answers) != 1:
        raise RuntimeError(f"the awks do not agree: {answers}")

    def row(name, of):
        ratio = median(of, "wall") / median(runs["gawk"], "wall") if "gawk" in runs else float("nan")
        return [name, f"{median(of, 'wall'):.2f}", f"{median(of, 'cpu'):.2f}", f"{median(of, 'peak_kib') / 1024:.0f}", f"{ratio:.2f}"]

    report.table(
        ["awk", "wall (s)", "user + system (s)", "peak memory (MiB)", "wall / gawk"],
        [
            row("pmawk, heap on disk", persistent),
            *(row(name, of) for name, of in sorted(runs.items(), key=lambda item: median(item[1], "wall"))),
        ],
    )
    own = median(runs["pmawk"], "wall")
    write = statistics.median(write_seconds)
    allowed = own + write
    rows = []
    if "gawk" in runs:
        ratio = own / median(runs["gawk"], "wall")
        rows.append(["volatile build, time to gawk's", "<= 0.50", f"{ratio:.2f}", ratio <= 0.5])
    for name in ("mawk", "goawk"):
        if name in runs:
            ratio = own / median(runs[name], "wall")
            rows.append([f"volatile build, time to {name}'s", "< 1.00", f"{ratio:.2f}", ratio < 1])
    ratio = median(persistent, "wall") / allowed
    rows.append([f"persistent build to volatile + one write ({own:.2f} + {write:.2f} s)", "<= 1.15", f"{ratio:.2f}", ratio <= 1.15])
    if "gawk" in runs:
        for name, of in (("persistent", persistent), ("volatile", runs["pmawk"])):
            ratio = median(of, "peak_kib") / median(runs["gawk"], "peak_kib")
            rows.append([f"peak memory to gawk's, {name}", "<= 0.50", f"{ratio:.2f}", ratio <= 0.5])
        ours = allocated(heap)
        pm = pm_gawk(theirs, 16 << 30)
        if pm:
            command, where = pm
            Run([*command, program, str(text)], where)
            other = allocated(theirs)
            rows.append(
                [
                    f"heap file to pm-gawk's ({ours / MIB:.0f} / {other / MIB:.0f} MiB)",
                    "<= 0.50",
                    f"{ours / other:.2f}",
                    ours / other <= 0.5,
                ]
            )
        else:
            rows.append(["heap file to pm-gawk's", "<= 0.50", "this gawk has no persistent memory", None])
    report.targets(rows)
    remove_heap(heap)
    theirs.unlink(missing_ok=True)
