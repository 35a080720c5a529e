#!/usr/bin/env python3
"""The figures: pmawk beside other awks, in one run on one machine, with targets.

    ./x bench [awk-core|commit|query|all] [--small]

Times of different machines do not compare, so everything is a ratio to a peer that ran in turn with us (A B C A B C ...).
Each run prints a table and leaves a dated record in bench/record/. --small is a rehearsal: its figures mean little, and
it leaves no record.
Data lies in .x/bench/, on the file system of the checkout; PERDURE_BENCH_FOLDER=/elsewhere moves it.
"""

import datetime
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATE = ROOT / ".x"
FOLDER = pathlib.Path(os.environ.get("PERDURE_BENCH_FOLDER", STATE / "bench"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
PMAWK = TARGET / "release" / "pmawk"
GOAWK = "github.com/benhoyt/goawk"
ROUNDS = 3
QUERY_ROUNDS = 50
MIB = 1 << 20


def environment():
    """C locale for all: the fastest setting of each of them. No heap but those that we name."""
    keep = {k: v for k, v in os.environ.items() if k not in ("PMAWK_HEAP", "GAWK_PERSIST_FILE", "LANG") and not k.startswith("LC_")}
    return {**keep, "LC_ALL": "C"}


class Run:
    """What one run of a command cost."""

    def __init__(self, command, extra=None):
        report = FOLDER / "report"
        done = subprocess.run(
            [FOLDER / "measure", report, *command],
            env={**environment(), **(extra or {})},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            check=False,
        )
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr.decode()}")
        wall, user, system, peak_kib, minor, major, status = map(int, report.read_text().split())
        if status != 0:
            raise RuntimeError(f"{command}: status {status}: {done.stderr.decode()}")
        self.output = done.stdout
        self.wall = wall / 1e6
        self.cpu = (user + system) / 1e6
        self.peak_kib = peak_kib
        self.faults = minor + major


def median(runs, what):
    return statistics.median(getattr(run, what) for run in runs)


class Report:
    """Lines for people, on the terminal and in the record."""

    def __init__(self, name):
        self.name = name
        self.lines = []

    def say(self, line=""):
        print(line, flush=True)
        self.lines.append(line)

    def table(self, head, rows):
        rows = [[str(cell) for cell in row] for row in rows]
        widths = [max(len(row[i]) for row in [head, *rows]) for i in range(len(head))]
        self.say()
        for row in [head, ["-" * width for width in widths], *rows]:
            self.say("| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths)) + " |")
        self.say()

    def targets(self, rows):
        """Rows of what, target, measured, whether met (None: not known)."""
        verdict = {True: "met", False: "NOT MET", None: "-"}
        self.table(["what", "target", "measured", ""], [[*row[:3], verdict[row[3]]] for row in rows])

    def save(self):
        today = datetime.date.today().isoformat()
        path = ROOT / "bench" / "record" / f"{today}-{self.name}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {self.name}, {today}\n\n" + "\n".join(self.lines).strip() + "\n")
        print(f"record: {path.relative_to(ROOT)}")


def first_line(command, extra=None):
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env={**os.environ, **(extra or {})})
        return (done.stdout or done.stderr).strip().splitlines()[0]
    except (OSError, IndexError):
        return "?"


def machine(report):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory_kib = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    file_system = first_line(["findmnt", "-no", "FSTYPE", "-T", str(FOLDER)])
    kernel = platform.release().split("-")[0]
    commit = first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])
    report.say(f"Machine: {cpu}, {os.cpu_count()} processors, {memory_kib / MIB:.0f} GiB, Linux {kernel}, {file_system}.")
    report.say(f"Commit: {commit}. Load average at the start: {os.getloadavg()[0]:.2f}.")


def goawk():
    """goawk, built into .x/ if there is a Go compiler and it is not on the path."""
    found = shutil.which("goawk") or shutil.which("goawk", path=str(STATE / "go" / "bin"))
    if found:
        return found
    if not shutil.which("go"):
        return None
    # bench/goawk/go.mod names the version, go.sum its content.
    print("building goawk", flush=True)
    places = {"GOPATH": str(STATE / "go"), "GOFLAGS": "-modcacherw"}
    built = STATE / "go" / "bin" / "goawk"
    subprocess.run(["go", "build", "-o", built, GOAWK], cwd=ROOT / "bench" / "goawk", env={**os.environ, **places}, check=False)
    return shutil.which("goawk", path=str(STATE / "go" / "bin"))


def peers(report):
    """Name to command, of those that are here."""
    commands = {"pmawk": [str(PMAWK)], "gawk": ["gawk"], "mawk": ["mawk"], "goawk": [goawk()], "original-awk": ["original-awk"], "busybox": ["busybox", "awk"]}
    versions = {"gawk": ["--version"], "mawk": ["-W", "version"], "goawk": ["-version"], "original-awk": ["-version"]}
    here = {name: command for name, command in commands.items() if command[0] and shutil.which(command[0])}
    told = [f"{name} ({first_line([*here[name], *versions[name]])})" for name in here if name in versions]
    report.say("Peers: " + ", ".join(told) + (", busybox." if "busybox" in here else "."))
    for name in commands.keys() - here.keys():
        report.say(f"Not here: {name}.")
    return here


def remove_heap(path):
    for file in (path, path.with_name(path.name + ".journal")):
        file.unlink(missing_ok=True)


def allocated(path):
    return path.stat().st_blocks * 512


def write_once(data, path):
    """Seconds to write bytes to a new file and to flush them: what any way of keeping them must pay."""
    start = time.perf_counter()
    with open(path, "wb", buffering=0) as file:
        for at in range(0, len(data), MIB):
            os.pwrite(file.fileno(), data[at : at + MIB], at)
        os.fdatasync(file.fileno())
    seconds = time.perf_counter() - start
    path.unlink()
    return seconds


def settle():
    """Nothing of an earlier run is on its way to the disk when the next one starts."""
    os.sync()


def awk_core(report, small):
    bytes_count = 20_000_000 if small else 200_000_000
    text = FOLDER / f"words-{bytes_count}"
    if not text.exists() or text.stat().st_size != bytes_count:
        with open(text, "wb") as file:
            subprocess.run([FOLDER / "random_words", str(bytes_count)], stdout=file, check=True)
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
        data = heap.read_bytes()
        settle()
        write_seconds.append(write_once(data, copy))
        del data
    answers = {runs[name][0].output for name in runs} | {persistent[0].output}
    if len(answers) != 1:
        raise RuntimeError(f"the awks do not agree: {answers}")

    def row(name, of):
        ratio = median(of, "wall") / median(runs["gawk"], "wall") if "gawk" in runs else float("nan")
        return [name, f"{median(of, 'wall'):.2f}", f"{median(of, 'cpu'):.2f}", f"{median(of, 'peak_kib') / 1024:.0f}", f"{ratio:.2f}"]

    report.table(
        ["awk", "wall (s)", "user + system (s)", "peak memory (MiB)", "wall / gawk"],
        [row("pmawk, heap on disk", persistent), *(row(name, of) for name, of in sorted(runs.items(), key=lambda item: median(item[1], "wall")))],
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
        other = pm_gawk_heap(theirs, program, text)
        if other:
            rows.append([f"heap file to pm-gawk's ({ours / MIB:.0f} / {other / MIB:.0f} MiB)", "<= 0.50", f"{ours / other:.2f}", ours / other <= 0.5])
        else:
            rows.append(["heap file to pm-gawk's", "<= 0.50", "this gawk has no persistent memory", None])
    report.targets(rows)
    remove_heap(heap)
    theirs.unlink(missing_ok=True)


def pm_gawk_heap(path, program, text):
    """Bytes that pm-gawk's heap takes for the same data; none if this gawk cannot."""
    # A program that is loaded at random addresses needs a fixed layout for its pointers.
    for prefix in ([], ["setarch", "-R"]):
        path.unlink(missing_ok=True)
        with open(path, "wb") as file:
            file.truncate(16 << 30)
        path.chmod(0o600)
        try:
            Run([*prefix, "gawk", program, str(text)], {"GAWK_PERSIST_FILE": str(path)})
            check = Run([*prefix, "gawk", "BEGIN { print (length(n) > 0) }"], {"GAWK_PERSIST_FILE": str(path)})
        except RuntimeError:
            continue
        if check.output.strip() == b"1":
            return allocated(path)
    return None


def query(report, small):
    keys = 1_000_000 if small else 10_000_000
    heap = FOLDER / "query.heap"
    remove_heap(heap)
    report.say(f"Heap of {keys:,} keys. One question in a new process, {QUERY_ROUNDS} runs, in turn; milliseconds.")
    build = Run([str(PMAWK), f"--persist={heap}", f'BEGIN {{ for (i = 0; i < {keys}; i++) n["key" i] = i }}'])
    settle()
    question = f'BEGIN {{ print n["key{keys // 3}"] }}'
    commands = {
        "pmawk, one element of the heap": [str(PMAWK), f"--persist={heap}", question],
        "pmawk, the same in a snapshot": [str(PMAWK), f"--persist={heap}", "--snapshot", question],
        "pmawk, heap opened, nothing asked": [str(PMAWK), f"--persist={heap}", "BEGIN { }"],
        "pmawk 'BEGIN { }'": [str(PMAWK), "BEGIN { }"],
        "gawk 'BEGIN { }'": ["gawk", "BEGIN { }"],
        "mawk 'BEGIN { }'": ["mawk", "BEGIN { }"],
    }
    commands = {name: command for name, command in commands.items() if shutil.which(command[0])}
    runs = {name: [] for name in commands}
    for _ in range(QUERY_ROUNDS):
        for name, command in commands.items():
            runs[name].append(Run(command))
    asked = runs["pmawk, one element of the heap"]
    if asked[0].output.strip() != str(keys // 3).encode():
        raise RuntimeError(f"the heap answered {asked[0].output!r}")
    rows = []
    for name, of in runs.items():
        least = min(run.wall for run in of)
        rows.append([name, f"{least * 1e3:.2f}", f"{median(of, 'wall') * 1e3:.2f}", f"{median(of, 'faults'):.0f}", f"{median(of, 'peak_kib')}"])
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


def commit(report, small):
    keys = 1_000_000 if small else 10_000_000
    command = ["cargo", "run", "--quiet", "--release", "-p", "heap", "--example", "commit_cost", "--", str(FOLDER), str(keys)]
    done = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    facts = [(words[0], {k: int(v) for k, v in (word.split("=") for word in words[1:])}) for words in map(str.split, done.stdout.splitlines())]
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


PARTS = {"awk-core": awk_core, "query": query, "commit": commit}


def main():
    words = [word for word in sys.argv[1:] if word != "--small"]
    small = "--small" in sys.argv[1:]
    what = words[0] if words else "all"
    if len(words) > 1 or what not in (*PARTS, "all"):
        sys.exit(f"bench: unknown: {' '.join(words)}; expected one of {', '.join(PARTS)}, all; and --small or not")
    FOLDER.mkdir(parents=True, exist_ok=True)
    for name in ("random_words", "measure"):
        subprocess.run(["gcc", "-O2", "-o", FOLDER / name, ROOT / "bench" / f"{name}.c"], check=True)
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "pmawk"], cwd=ROOT, check=True)
    report = Report(what + ("-small" if small else ""))
    machine(report)
    for name, part in PARTS.items():
        if what in (name, "all"):
            report.say(f"\n## {name}\n")
            part(report, small)
    if not small:
        report.save()


if __name__ == "__main__":
    main()
