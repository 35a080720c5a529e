"""What one commit writes, for one change and for many."""

import subprocess

from .harness import FOLDER, ROOT


def run(report, small):
    keys = 1_000_000 if small else 10_000_000
    command = ["cargo", "run", "--quiet", "--release", "-p", "heap", "--example", "commit_cost", "--", str(FOLDER), str(keys)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    facts = [
        (words[0], {k: int(v) for k, v in (word.split("=") for word in words[1:])}) for words in map(str.split, done.stdout.splitlines())
    ]
    report.say(f"Table of {keys:,} numbers; k of them changed, spread over all, then a durable commit. Bytes are means over the rounds.")
    rows, worst = [], 0
    for kind, fact in facts:
        if kind != "change":
            continue
        changed = fact["k"] * fact["rounds"]
        written = fact["journal_bytes"] + fact["applied_bytes"]
        ratio = written / (fact["lines"] * 64)
        if fact["k"] >= 10:
            worst = max(worst, ratio)
        rows.append(
            [
                f"{fact['k']:,}",
                f"{fact['lines'] / changed:.2f}",
                f"{fact['journal_bytes'] / changed:.0f}",
                f"{fact['applied_bytes'] / changed:.0f}",
                f"{ratio:.2f}",
                f"{fact['flushes'] / fact['rounds']:.1f}",
                f"{fact['commit_us'] / 1e3:.2f}",
            ]
        )
    report.table(
        ["k", "lines / value", "journal bytes / value", "heap bytes / value", "written / changed lines", "flushes", "median (ms)"],
        rows,
    )
    one = next(fact for kind, fact in facts if kind == "one")
    ratio = one["commit_us"] / one["write_us"]
    report.targets(
        [
            ["bytes written to bytes of changed lines, k >= 10, worst", "<= 4.00", f"{worst:.2f}", worst <= 4],
            [
                f"one-value durable commit to 4 KiB pwrite + fdatasync ({one['commit_us'] / 1e3:.2f} / {one['write_us'] / 1e3:.2f} ms)",
                "<= 1.30",
                f"{ratio:.2f}",
                ratio <= 1.3,
            ],
        ]
    )
