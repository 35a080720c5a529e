"""One question to a big heap, in a new process."""

import shutil

from .harness import FOLDER, MIB, PMAWK, Run, allocated, gawk, median, remove_heap, settle

ROUNDS = 50


def run(report, small):
    keys = 1_000_000 if small else 10_000_000
    heap = FOLDER / "query.heap"
    remove_heap(heap)
    report.say(f"Heap of {keys:,} keys. One question in a new process, {ROUNDS} runs, in turn; milliseconds.")
    build = Run([str(PMAWK), f"--persist={heap}", f'BEGIN {{ for (i = 0; i < {keys}; i++) n["key" i] = i }}'])
    settle()
    question = f'BEGIN {{ print n["key{keys // 3}"] }}'
    commands = {
        "pmawk, one element of the heap": [str(PMAWK), f"--persist={heap}", question],
        "pmawk, the same in a snapshot": [str(PMAWK), f"--persist={heap}", "--snapshot", question],
        "pmawk, heap opened, nothing asked": [str(PMAWK), f"--persist={heap}", "BEGIN { }"],
        "pmawk 'BEGIN { }'": [str(PMAWK), "BEGIN { }"],
        "gawk 'BEGIN { }'": [gawk(), "BEGIN { }"],
        "mawk 'BEGIN { }'": ["mawk", "BEGIN { }"],
    }
    commands = {name: command for name, command in commands.items() if shutil.which(command[0])}
    runs = {name: [] for name in commands}
    for _ in range(ROUNDS):
        for name, command in commands.items():
            runs[name].append(Run(command))
    asked = runs["pmawk, one element of the heap"]
    if asked[0].output.strip() != str(keys // 3).encode():
        raise RuntimeError(f"the heap answered {asked[0].output!r}")
    rows = []
    for name, of in runs.items():
        least = min(run.wall for run in of)
        rows.append(
            [name, f"{least * 1e3:.2f}", f"{median(of, 'wall') * 1e3:.2f}", f"{median(of, 'faults'):.0f}", f"{median(of, 'peak_kib'):.0f}"]
        )
    report.table(["command", "least (ms)", "median (ms)", "pages touched", "peak (KiB)"], rows)
    start = median(runs["pmawk 'BEGIN { }'"], "wall")
    more = (median(asked, "wall") - start) * 1e3
    pages = median(asked, "faults") - median(runs["pmawk 'BEGIN { }'"], "faults")
    targets = [[f"query beyond `BEGIN {{ }}` ({pages:.0f} more pages touched)", "<= 1 ms", f"{more:.2f} ms", more <= 1]]
    if "gawk 'BEGIN { }'" in runs:
        ratio = start / median(runs["gawk 'BEGIN { }'"], "wall")
        targets.append(["pmawk 'BEGIN { }' to gawk's start-up", "<= 1.00", f"{ratio:.2f}", ratio <= 1])
    report.targets(targets)
    report.say(f"(The heap was built in {build.wall:.2f} s and takes {allocated(heap) / MIB:.0f} MiB.)")
    remove_heap(heap)
