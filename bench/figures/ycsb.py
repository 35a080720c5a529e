"""YCSB's core workloads A to F on three structures, with engines plugged in below them: libperdure's three modes, PMDK, plain msync, and malloc; and
above them, as stores of keys and values: gdbm in its failure-atomic mode, LMDB, SQLite.

The programs are bench/msync/*.c. Each run compares what it read, and every record that it left, with a model, and ends with an error if they
differ; stores that keep anything are closed and opened again for it.
"""

import contextlib
import json
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from . import plot
from .harness import FOLDER, MEMORY, ROOT, TARGET, first_line

SOURCES = ROOT / "bench" / "msync"
DRIVER = ["ycsb.c", "workload.c", "model.c"]
STRUCTURES = ["memory.c", "hash.c", "btree.c", "list.c"]
FLAGS = ["-O2", "-std=gnu11", "-Wall", "-Wextra"]
BATCHES = (1, 10, 100, 1000)
WORKLOADS = "ABCDEF"
# In the order that YCSB advises, the store made anew before the scans: D adds records.
ORDER = "ABCFD,E"
TITLES = {
    "hash": "key-value store (hash table)",
    "btree": "B-tree",
    "list": "linked list",
}


class Engine:
    """A program and where its store lies. `forced`: PMDK's load goes with flushes by instructions, whatever the run does."""

    def __init__(self, name, program, medium, stores=("hash", "btree", "list"), extra=None, load_extra=None):
        self.name = name
        self.program = program
        self.medium = medium
        self.stores = stores
        self.extra = extra or {}
        self.load_extra = load_extra


FORCE = {"PMEM_IS_PMEM_FORCE": "1"}
ENGINES = [
    Engine("volatile", "volatile", "memory"),
    Engine("perdure memory", "lines", "memory", extra={"PERDURE_MEDIA": "memory"}),
    Engine("PMDK memory", "pmdk", "memory", extra=FORCE),
    Engine("perdure lines", "lines", "disk"),
    Engine("perdure pages", "pages", "disk"),
    Engine("PMDK disk", "pmdk", "disk", load_extra=FORCE),
    Engine("msync", "msync", "disk"),
    Engine("gdbm", "gdbm", "xfs", stores=("kv",)),
    Engine("LMDB", "lmdb", "disk", stores=("kv",)),
    Engine("SQLite", "sqlite", "disk", stores=("kv",)),
]
OURS, PEER = "perdure memory", "PMDK memory"
# glibc's malloc asks for huge pages: reads at random are faster by what the page tables cost.
HUGE = Engine("volatile, huge pages", "volatile", "memory", extra={"GLIBC_TUNABLES": "glibc.malloc.hugetlb=1"})
ABOUT = """`volatile` is malloc and keeps nothing. `perdure memory` is libperdure in a program compiled by perdure-cc, on byte-addressable media,
and `PMDK memory` libpmemobj with PMEM_IS_PMEM_FORCE=1. **Such media are emulated**: both files lie on /dev/shm, and both libraries use the
instructions that they would use there; what is durable lasts until the machine is switched off. `perdure lines`: the same program, heap on the
disk; `perdure pages`: compiled without the pass. `msync` is a shared mapping and msync of all of it at each commit: **not** failure-atomic. `gdbm`
is in failure-atomic mode on XFS on a loop device over a file; LMDB as it is by default; SQLite with a write-ahead log and synchronous=FULL. All but
`volatile` return from a commit when it is durable; all but `msync` are atomic."""


def build(report):
    """Programs by name, of what can be had here; what cannot is said."""
    folder = FOLDER / "ycsb"
    folder.mkdir(exist_ok=True)
    compiler = shutil.which("clang-19") or "gcc"
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "capi", "-p", "perdure-cc"], cwd=ROOT, check=True)
    with_pass = shutil.which("clang++-19") and subprocess.run(["make", "-s", "-C", "cpp/pass", f"OUT={TARGET}"], cwd=ROOT, check=False).returncode == 0
    library = TARGET / "release"
    perdure = ["-DENGINE_PERDURE", "-I", ROOT / "crates/capi/include", "-L", library, "-lperdure", f"-Wl,-rpath,{library}"]
    plans = {
        "volatile": (compiler, STRUCTURES, ["-DENGINE_VOLATILE"]),
        "pages": (compiler, STRUCTURES, perdure),
        "lines": (library / "perdure-cc" if with_pass else None, STRUCTURES, perdure),
        "pmdk": (compiler, STRUCTURES, ["-DENGINE_PMDK", "-lpmemobj"]),
        "msync": (compiler, STRUCTURES, ["-DENGINE_MSYNC"]),
        "gdbm": (compiler, ["kv_gdbm.c"], ["-DSTORE=kv_store", "-lgdbm"]),
        "lmdb": (compiler, ["kv_lmdb.c"], ["-DSTORE=kv_store", "-llmdb"]),
        "sqlite": (compiler, ["kv_sqlite.c"], ["-DSTORE=kv_store", "-lsqlite3"]),
    }
    programs = {}
    for name, (command, sources, options) in plans.items():
        program = folder / name
        reason = "no clang 19 with its headers"
        if command:
            words = [command, *FLAGS, *(SOURCES / source for source in [*DRIVER, *sources]), *options, "-lm", "-o", program]
            done = subprocess.run(words, capture_output=True, text=True, check=False)
            if done.returncode == 0:
                programs[name] = program
                continue
            missing = re.search(r"fatal error: '?([\w./]+\.h)", done.stderr)
            if not missing:
                raise RuntimeError(done.stderr)
            reason = f"no {missing[1]}"
        report.say(f"Left out: {name} ({reason}).")
    report.say(f"Compiler: {first_line([compiler, '--version'])}, {' '.join(FLAGS[:2])}, for all.")
    return programs


@contextlib.contextmanager
def places(report):
    """Folders by medium; XFS only where this machine lets us mount one."""
    folders = {"disk": FOLDER / "ycsb-store", "memory": MEMORY / f"perdure-bench-{os.getpid()}"}
    image, mounted = FOLDER / "ycsb.xfs", FOLDER / "ycsb-xfs"
    for folder in (*folders.values(), mounted):
        folder.mkdir(exist_ok=True)
    image.unlink(missing_ok=True)
    with open(image, "wb") as file:
        file.truncate(4 << 30)
    steps = [["mkfs.xfs", "-q", "-m", "reflink=1", image], ["mount", "-o", "loop", image, mounted]]
    search = {**os.environ, "PATH": os.environ.get("PATH", "") + ":/usr/sbin:/sbin"}
    try:
        for step in steps:
            subprocess.run(step, check=True, capture_output=True, env=search)
        folders["xfs"] = mounted
    except (OSError, subprocess.CalledProcessError):
        report.say("Left out: what needs XFS (no root, no mkfs.xfs or no loop device).")
    try:
        yield folders
    finally:
        if "xfs" in folders:
            subprocess.run(["umount", mounted], check=False)
        image.unlink(missing_ok=True)
        for folder in (folders["disk"], folders["memory"], mounted):
            shutil.rmtree(folder, ignore_errors=True)


class Size:
    """How much is done: records of a store, seconds of a cell, and operations at most, which are fewer where records are added, so that all engines
    work on about the same store."""

    def __init__(self, small):
        self.records = {"hash": 10_000, "btree": 10_000, "list": 200, "kv": 10_000} if small else {"hash": 100_000, "btree": 100_000, "list": 1000, "kv": 100_000}
        self.seconds = 0.05 if small else 0.5
        self.operations = 20_000 if small else 400_000
        self.rounds = 1 if small else 5

    def operations_of(self, store):
        return self.operations // 20 if store == "list" else self.operations


class Runner:
    def __init__(self, programs, folders, size):
        self.programs, self.folders, self.size = programs, folders, size

    def has(self, engine):
        return engine.program in self.programs and engine.medium in self.folders

    def once(self, engine, store, batch, workloads):
        """Cells by workload: operations a second, one for each time that the workload was run."""
        path = self.folders[engine.medium] / "store"
        words = [self.programs[engine.program], store, path, self.size.records[store], batch, self.size.seconds, self.size.operations_of(store)]
        parts = [(workloads, engine.extra)]
        if engine.load_extra is not None:
            # Loaded by another process, with other settings.
            parts = [part for some in workloads.split(",") for part in (("", engine.load_extra), ("+" + some, engine.extra))]
        found = {}
        for which, extra in parts:
            done = subprocess.run([*map(str, words), which], env={**os.environ, **extra}, capture_output=True, text=True, check=False)
            if done.returncode != 0:
                raise RuntimeError(f"{engine.name}, {store}, {batch}: status {done.returncode}: {done.stderr}")
            for line in done.stdout.splitlines():
                cell = json.loads(line)
                found.setdefault(cell["workload"], []).append(cell["operations"] / cell["seconds"])
        for file in pathlib.Path(path).parent.glob("store*"):
            file.unlink()
        return found


def rate(value):
    if value is None:
        return "-"
    if value >= 999_500:
        return f"{value / 1e6:.2f} M"
    return f"{value / 1e3:.1f} k" if value >= 999.5 else f"{value:.0f}"


def matrix(report, runner, structure):
    """Rates by batch, engine and workload, of a structure and, beside the hash table, of stores of keys and values."""
    stores = (structure, "kv") if structure == "hash" else (structure,)
    rates = {}
    for batch in BATCHES:
        for engine in filter(runner.has, ENGINES):
            store = next((store for store in stores if store in engine.stores), None)
            if store is None:
                continue
            print(f"  {structure}, {engine.name}, commit every {batch}", flush=True)
            if engine.name == "volatile" and batch != BATCHES[0]:
                rates[batch, engine.name] = rates[BATCHES[0], engine.name]  # nothing is committed
                continue
            cells = runner.once(engine, store, batch, ORDER)
            rates[batch, engine.name] = {workload: statistics.median(values) for workload, values in cells.items()}
    names = [engine.name for engine in ENGINES if (BATCHES[0], engine.name) in rates]
    records = runner.size.records[structure]
    report.say(f"\n### {TITLES[structure]}, {records:,} records of 1000 bytes: operations a second\n")
    for batch in BATCHES:
        report.say(f"\nA commit {'after every operation that changes something' if batch == 1 else f'every {batch} operations'}; loading: every 1000.")
        head = ["", "load", *WORKLOADS]
        report.table(head, [[name, *(rate(rates[batch, name].get(workload)) for workload in head[1:])] for name in names])
    rows = [
        (f"{workload}, {'each' if batch == 1 else batch}", {name: rates[batch, name][workload] for name in names}) for workload in WORKLOADS for batch in (1, 100)
    ]
    title = f"YCSB on a {TITLES[structure]}, {records:,} records"
    below = "operations a second (right is faster; logarithmic), with a commit after each or every 100; memory: emulated on /dev/shm"
    report.picture(f"ycsb-{structure}", plot.rates(title, below, rows), title)


def against_pmdk(report, runner):
    """The target of the key-value store on byte-addressable media: alternating runs, medians."""
    engines = [engine for engine in ENGINES if engine.name in ("volatile", OURS, PEER) and runner.has(engine)]
    if len(engines) < 3:
        report.say("No comparison with PMDK: it, or perdure-cc, is missing.")
        return []
    rates = {}
    for number in range(runner.size.rounds):
        print(f"  against PMDK, round {number + 1} of {runner.size.rounds}", flush=True)
        for batch in BATCHES:
            for engine in engines:
                for workload, values in runner.once(engine, "hash", batch, ORDER).items():
                    rates.setdefault((engine.name, batch, workload), []).extend(values)
    cells = [(workload, batch) for workload in WORKLOADS for batch in BATCHES]
    middle = {(name, *cell): statistics.median(rates[name, cell[1], cell[0]]) for name in ("volatile", OURS, PEER) for cell in cells}
    ratio, ceiling = ({cell: middle[(name, *cell)] / middle[(PEER, *cell)] for cell in cells} for name in (OURS, "volatile"))
    report.say(f"\n### {TITLES['hash']}, byte-addressable media (emulated): rates to PMDK's, medians of {runner.size.rounds} alternating rounds\n")
    report.say("libperdure's, and in brackets those of the program that keeps nothing: more than that cannot be had from any way of keeping.")
    heads = ["", *("each operation" if batch == 1 else f"every {batch}" for batch in BATCHES)]
    report.table(heads, [[workload, *(f"{ratio[workload, batch]:.2f} ({ceiling[workload, batch]:.2f})" for batch in BATCHES)] for workload in WORKLOADS])
    worst = {workload: min(ratio[workload, batch] for batch in BATCHES) for workload in WORKLOADS}
    return [[f"KV store, workload {workload}, to PMDK, worst batch", ">= 2.00", f"{worst[workload]:.2f}", worst[workload] >= 2] for workload in WORKLOADS]


def instructions(engine, runner, operations):
    """Of one B-tree read, counted, not timed; None where there is no valgrind."""
    if not shutil.which("valgrind"):
        return None
    counts = []
    for count in (1000, 1000 + operations):
        path = runner.folders["disk"] / "store"
        command = ["valgrind", "--tool=callgrind", "--toggle-collect=btree_read", "--callgrind-out-file=/dev/null"]
        words = [runner.programs[engine.program], "btree", path, 5000, 1, 1000, count, "C"]
        done = subprocess.run([*command, *map(str, words)], capture_output=True, text=True, check=False)
        collected = re.search(r"Collected : (\d+)", done.stderr)
        if done.returncode != 0 or not collected:
            return None
        counts.append(int(collected[1]))
    return (counts[1] - counts[0]) / operations


def reads(report, runner):
    """The target of B-tree reads: workload C on engines in turn."""
    names = ("volatile", OURS, "perdure lines", "perdure pages", PEER)
    engines = [engine for engine in (HUGE, *ENGINES) if engine.name in (HUGE.name, *names) and runner.has(engine)]
    rounds = 3 * runner.size.rounds
    times = {engine.name: [] for engine in engines}
    for number in range(rounds):
        print(f"  B-tree reads, round {number + 1} of {rounds}", flush=True)
        for engine in engines if number % 2 == 0 else reversed(engines):
            # The first time warms the caches.
            times[engine.name] += [1e9 / rate for rate in runner.once(engine, "btree", 1, "CCCC")["C"][1:]]
    counted = {}
    for engine in engines:
        if engine.program not in counted:
            counted[engine.program] = instructions(engine, runner, 20_000)
    # The better of the two.
    base, counted_base = min(statistics.median(times[name]) for name in ("volatile", HUGE.name)), counted["volatile"]
    report.say(f"\n### B-tree reads (workload C): {rounds} alternating rounds of three runs, medians\n")
    rows, targets = [], []
    for engine in engines:
        time = statistics.median(times[engine.name])
        count = counted[engine.program]
        more = f"{count / counted_base:.3f}" if count and counted_base else "-"
        rows.append([engine.name, f"{time:.1f}", f"{time / base:.3f}", f"{count:.0f}" if count else "-", more])
        if engine.name.startswith("perdure"):
            targets.append([f"B-tree reads, {engine.name}, time to the faster volatile", "<= 1.05", f"{time / base:.3f}", time / base <= 1.05])
    report.table(["", "ns / operation", "to the faster volatile", "instructions / read", "to volatile"], rows)
    report.say("(Instructions: of the function that reads, by callgrind, on 5000 records.)")
    return targets


def run(report, small, structures=None):
    size = Size(small)
    report.say("YCSB: records of ten fields of 100 bytes; reads take all, updates write one field. A: 50 % reads, 50 % updates; B: 95 %, 5 %; C: reads; D: 95 %")
    report.say("reads of what is new, 5 % inserts; E: 95 % scans of 1 to 100 records, 5 % inserts; F: 50 % reads, 50 % reads with an update behind them. Zipfian, 0.99.")
    report.say(f"One thread. A cell ends after {size.seconds} s or {size.operations:,} operations (on the list {size.operations_of('list'):,}). Scans of the hash table go along its buckets.\n")
    report.say(ABOUT + "\n")
    programs = build(report)
    with places(report) as folders:
        runner = Runner(programs, folders, size)
        targets = against_pmdk(report, runner) + reads(report, runner)
        for structure in TITLES if structures is None else structures:
            matrix(report, runner, structure)
    report.targets(targets)
