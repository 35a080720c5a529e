"""libperdure outside of YCSB: commits beside what else makes a change durable, a real program, and what it costs a program that never commits.

Invariant: what is compared alternates, within one process or run by run; a row that this machine cannot have (no root, no such file system, a source
that could not be fetched) is named as left out.
"""

import contextlib
import os
import pathlib
import re
import shutil
import statistics
import subprocess

from .harness import FOLDER, MEMORY, MIB, ROOT, STATE, TARGET

SOURCES = ROOT / "bench" / "msync"
HEADERS = ROOT / "crates" / "capi" / "include"
PERDURE_CC = TARGET / "release" / "perdure-cc"
OUT = FOLDER / "msync"
LINKED = ["-L", str(TARGET / "release"), "-lperdure", f"-Wl,-rpath,{TARGET / 'release'}"]
ENVIRONMENT = {**os.environ, "PERDURE_PASS": str(TARGET / "perdure-pass.so"), "PERDURE_LIB": str(TARGET / "release")}
KINDS = {"pages": "the kernel's pages (cc)", "lines": "lines (perdure-cc)"}


def run(report, small):
    OUT.mkdir(parents=True, exist_ok=True)
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "capi", "-p", "perdure-cc"], cwd=ROOT, check=True)
    subprocess.run(["make", "--quiet", "-C", ROOT / "cpp" / "pass", f"OUT={TARGET}"], check=True)
    targets = []
    for part in (one_line, random_pages, kyoto, never_commits, sparse):
        targets += part(report, small) or []
    report.say("\n### Targets of these rows")
    report.targets(targets)


def program(kind, *sources):
    """A C program of bench/msync, built for one kind of tracking."""
    path = OUT / f"{pathlib.Path(sources[0]).stem}-{kind}"
    compiler = ["gcc", "-Wall", "-Wextra"] if kind == "pages" else [PERDURE_CC, "-DNDEBUG"]
    files = [SOURCES / source for source in sources]
    link = LINKED if kind == "pages" else []
    subprocess.run([*compiler, "-O2", "-I", HEADERS, "-o", path, *files, *link], env=ENVIRONMENT, check=True)
    return path


def numbers(command, **extra):
    """The numbers that a program prints in its last line."""
    done = subprocess.run([str(word) for word in command], env={**ENVIRONMENT, **extra}, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"{command}: status {done.returncode}: {done.stderr}")
    return [float(word) for word in done.stdout.split("\n")[-2].split()]


@contextlib.contextmanager
def fresh(folder):
    """A folder that is empty, and gone afterwards."""
    path = folder / "perdure-bench"
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    try:
        yield path
    finally:
        shutil.rmtree(path, ignore_errors=True)


@contextlib.contextmanager
def mounted(report, kind, folder, mib=1024):
    """A file system of its own on a loop device over a file in `folder`, the space of which is there beforehand; none where that cannot be."""
    lacking = [tool for tool in (f"mkfs.{kind}", "losetup", "mount") if not shutil.which(tool)]
    if os.geteuid() != 0 or lacking:
        report.say(f"Left out: {kind} on a loop device ({'needs root' if not lacking else 'no ' + lacking[0]}).")
        yield None
        return
    image, place, device = folder / f"perdure-{kind}.image", FOLDER / f"mounted-{kind}", None
    with open(image, "wb") as file:
        for _ in range(mib):
            file.write(bytes(MIB))
        os.fsync(file.fileno())
    place.mkdir(exist_ok=True)
    is_mounted = False
    try:
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        subprocess.run([f"mkfs.{kind}", "-q", "-F" if kind == "ext4" else "-f", image], check=True, **quiet)
        for direct in (["--direct-io=on"], []):
            found = subprocess.run(["losetup", *direct, "--find", "--show", image], capture_output=True, text=True, check=False)
            if found.returncode == 0:
                break
        device = found.stdout.strip()
        is_mounted = subprocess.run(["mount", "-t", kind, device, place], check=False, **quiet).returncode == 0
        if not is_mounted:
            report.say(f"Left out: {kind}, which this kernel does not mount.")
        yield place if is_mounted else None
    finally:
        if is_mounted:
            subprocess.run(["umount", place], check=True)
        if device:
            subprocess.run(["losetup", "-d", device], check=True)
        image.unlink()


def one_line(report, small):
    report.say("\n### One line of a heap, committed durably")
    report.say("\nBeside 4 KiB written to a preallocated file and flushed, in turn; medians. The middle half is of the ratios of neighbours.")
    rows, ratios = [], {}
    for kind, told in KINDS.items():
        with fresh(FOLDER) as folder:
            ours, written, low, high, rounds = numbers([program(kind, "line_commit.c"), folder, 1 if small else 6])
        ratios[kind] = ours / written
        rows.append([told, f"{ours:.0f}", f"{written:.0f}", f"{ours / written:.2f}", f"{low:.2f} - {high:.2f}", f"{rounds:,.0f}"])
    report.table(["tracking", "commit (us)", "pwrite + fdatasync (us)", "ratio", "middle half", "rounds"], rows)
    return [["one-line durable commit on disk to 4 KiB pwrite + fdatasync", "<= 1.20", f"{ratios['lines']:.2f}", ratios["lines"] <= 1.2]]


def random_pages(report, small):
    report.say("\n### Random pages of a file, made permanent at once")
    report.say(
        "\nA file of 64 MiB, mapped; a round changes a line (or all) of each of so many pages, then syncs. FICLONE: msync, then a clone to the"
        "\nolder of two snapshots, with three flushes of it (bench/msync/ficlone.c). msync alone is atomic in no way. Loop devices over files on the disk."
    )
    targets = []
    for kind, factor in (("xfs", 2), ("btrfs", 10)):
        with mounted(report, kind, FOLDER, 512 if small else 2048) as place:
            if not place:
                continue
            rows, times = [], []
            for pages, size in [(1, 64), (16, 64)] if small else [(1, 64), (4, 64), (16, 64), (64, 64), (16, 4096)]:
                for tracking in KINDS:
                    with fresh(place) as folder:
                        path = program(tracking, "file_commit.c", "ficlone.c")
                        clones, plain, ours, rounds = numbers([path, folder, 0.3 if small else 4, pages, size])
                    times.append(clones / ours)
                    what = f"{pages}, {'a line' if size == 64 else 'all'} of each"
                    rows.append([what, tracking, f"{clones:.0f}", f"{plain:.0f}", f"{ours:.0f}", f"{clones / ours:.1f}", f"{rounds:.0f}"])
            report.say(f"\n{kind}:")
            report.table(["pages", "tracking", "FICLONE (us)", "msync (us)", "libperdure (us)", "times faster", "rounds"], rows)
            mean = statistics.geometric_mean(times)
            targets.append([f"random pages against FICLONE on {kind}, geometric mean of its rows", f">= {factor}", f"{mean:.1f}", mean >= factor])
            targets.append(["the same, the worst of them", f">= {factor}", f"{min(times):.1f}", min(times) >= factor])
    return targets


def kyoto(report, small):
    report.say("\n### Kyoto Cabinet: transactions")
    done = subprocess.run([ROOT / "x", "kyoto"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        report.say(f"Left out: {done.stderr.strip()}")
        return []
    report.say(
        "\n100,000 records of 100 bytes; a transaction sets so many of them, anywhere. Its own: hard transactions (begin_transaction(true)), which"
        "\nwrite a log, flush it before each change, and msync and flush the file at the end. Patched (examples/kyotocabinet): no log, one"
        "\nfailure-atomic sync. Microseconds of a transaction, medians of runs in turn."
    )
    targets = []
    with contextlib.ExitStack() as stack:
        places = {"disk": stack.enter_context(fresh(FOLDER))}
        emulated = stack.enter_context(mounted(report, "ext4", MEMORY, 512))
        if emulated:
            places["ext4 in memory"] = stack.enter_context(fresh(emulated))
        places["tmpfs"] = stack.enter_context(fresh(MEMORY))
        rows = []
        for name, place in places.items():
            for records in [1, 10] if small or name == "tmpfs" else [1, 4, 10, 100]:
                medians = {}
                for _ in range(1 if small else 3):
                    for kind in ("plain", "pages", "lines"):
                        command = [STATE / "kyoto" / f"ledger-{kind}", place / f"{kind}.kch", "speed", 0.3 if small else 1, records, 100]
                        medians.setdefault(kind, []).append(numbers(command)[0])
                plain, pages, lines = (statistics.median(medians[kind]) for kind in ("plain", "pages", "lines"))
                ratio = plain / lines
                rows.append([name, records, f"{plain:.1f}", f"{pages:.1f}", f"{lines:.1f}", f"{plain / pages:.1f}", f"{ratio:.1f}"])
                if name != "tmpfs":
                    targets.append([f"Kyoto Cabinet, {records} record{'s'[: records > 1]} a transaction, {name}", ">= 8", f"{ratio:.1f}", ratio >= 8])
        report.table(["on", "records", "its own", "pages", "lines", "pages, times", "lines, times"], rows)
    report.say("On tmpfs msync and fsync do nothing, and so its own durability costs nothing; ours still writes a journal. ext4 in memory: a loop")
    report.say("device over a file in /dev/shm, the nearest thing to a fast medium where its own durability means anything.")
    return targets


def never_commits(report, small):
    report.say("\n### A program that is instrumented and never commits")
    targets = []
    report.say("\ncpp/test/pass/speed: the least of fifteen runs in turn (us), beside clang -O2; in a heap, and in memory of malloc.")
    environment = {**ENVIRONMENT, **({"NO_CALLGRIND": "1"} if small or not shutil.which("valgrind") else {})}
    command = [ROOT / "cpp" / "test" / "pass" / "speed" / "run", PERDURE_CC, OUT / "speed"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    rows = [line.split() for line in done.stdout.splitlines()]
    differing = [row for row in rows if row[0] == "differs:"]
    if differing:
        raise RuntimeError(f"{differing}: another result than the program without the pass")
    report.table(["workload", "memory", "instructions", "with pass", "ratio", "us", "with", "ratio"], rows[1:])
    for name, told in (("hash", "map"), ("chained", "map of lists"), ("btree", "B-tree")):
        ratio = max(float(row[7]) for row in rows[1:] if row[0] == name)
        targets.append([f"slow-down, never committing: {told}", "<= 1.10", f"{ratio:.2f}", ratio <= 1.1])
    return targets + sqlite(report, small)


def sqlite(report, small):
    done = subprocess.run([ROOT / "x", "sqlite"], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        report.say(f"Left out: SQLite: {done.stderr.strip()}")
        return []
    source = STATE / "sqlite"
    flags = ["-O2", "-DNDEBUG", "-w", "-DSQLITE_THREADSAFE=0", "-DSQLITE_OMIT_LOAD_EXTENSION", "-I", source, "-I", HEADERS]
    for name, compiler in (("clang", "clang-19"), ("perdure-cc", PERDURE_CC)):
        objects = []
        for file, more in ((source / "sqlite3.c", []), (source / "speedtest1.c", ["-Dmain=speedtest1"]), (SOURCES / "sqlite_memory.c", [])):
            objects.append(OUT / f"{file.stem}-{name}.o")
            subprocess.run([compiler, *flags, *more, "-c", file, "-o", objects[-1]], env=ENVIRONMENT, check=True)
        subprocess.run([compiler, "-o", OUT / f"sqlite-{name}", *objects, *LINKED, "-lm"], env=ENVIRONMENT, check=True)
    report.say("\nSQLite's speedtest1 on a database in memory, seconds as it tells them, medians of runs in turn; nothing is ever committed.")
    walls, instructions = {}, {}

    def spent(memory, name, size, front=()):
        with fresh(FOLDER) as folder:
            where = "malloc" if memory == "malloc" else folder / "sqlite.heap"
            # Marks alone, also for the program that has none: both ask the kernel for nothing.
            command = [*front, OUT / f"sqlite-{name}", where, "--memdb", "--size", size]
            done = subprocess.run(list(map(str, command)), env={**ENVIRONMENT, "PERDURE_TRACK": "lines"}, capture_output=True, text=True, check=True)
            return done.stdout + done.stderr

    pairs = [(memory, name) for memory in ("malloc", "heap") for name in ("clang", "perdure-cc")]
    for _ in range(2 if small else 7):
        for pair in pairs:
            total = re.search(r"TOTAL\.* *([0-9]+\.[0-9]+)s", spent(*pair, 10 if small else 60))
            walls.setdefault(pair, []).append(float(total[1]))
    for pair in pairs:
        instructions[pair] = 0
        if shutil.which("valgrind") and not small:
            told = spent(*pair, 2, ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"])
            instructions[pair] = next(int(line.split()[-1]) for line in told.splitlines() if "Collected" in line)
    rows, targets = [], []
    for memory in ("malloc", "heap"):
        plain, ours = (statistics.median(walls[memory, name]) for name in ("clang", "perdure-cc"))
        asked, marked = (instructions[memory, name] for name in ("clang", "perdure-cc"))
        counted = [f"{asked:,}", f"{marked:,}", f"{marked / asked:.2f}"] if asked else ["-"] * 3
        rows.append([memory, f"{plain:.2f}", f"{ours:.2f}", f"{ours / plain:.2f}", *counted])
        targets.append([f"slow-down, never committing: SQLite, memory from {memory}", "<= 1.10", f"{ours / plain:.2f}", ours / plain <= 1.1])
    report.table(["memory", "clang (s)", "perdure-cc (s)", "ratio", "instructions (size 2)", "perdure-cc", "ratio"], rows)
    return targets


def sparse(report, small):
    report.say("\n### Large, mostly clean heaps")
    path = {kind: program(kind, "sparse.c") for kind in KINDS}
    targets, rows, opened = [], [], {}
    report.say("\nOpening a sparse heap of 100 GiB whose program was killed, after so much journal in commits of 16 lines each, scattered over all of")
    report.say("it; then once more. Durable commits bring lines to the heap when 256 KiB of journal wait; lazy ones do so when somebody waits for them.")
    report.say("What is replayed is copied into a page for each line here, which the kernel has to find first.")
    with fresh(FOLDER) as folder:
        heap = folder / "sparse.heap"
        subprocess.run([path["lines"], heap, "make", "100"], env=ENVIRONMENT, check=True)
        for how in ("durable", "lazy"):
            for kib in [1, 64, 192, 1024] + ([4096] if how == "durable" else []):
                killed = subprocess.run([path["lines"], heap, "crash", str(kib), how], env=ENVIRONMENT, capture_output=True, text=True, check=False)
                if killed.returncode != -9:
                    raise RuntimeError(f"not killed: {killed.stderr}")
                first, again = (numbers([path["lines"], heap, "open"])[0] for _ in range(2))
                opened[how, kib] = first
                rows.append([how, killed.stdout.strip(), f"{first / 1e3:.2f}", f"{again / 1e3:.2f}"])
    report.table(["commits", "journal (KiB)", "open (ms)", "again (ms)"], rows)
    slowest = max(opened["durable", kib] for kib in (1, 64, 192, 1024, 4096)) / 1e3
    targets.append(["100 GiB sparse heap opens after SIGKILL, durable commits, slowest (ms)", "< 100", f"{slowest:.1f}", slowest < 100])

    report.say("\nCommits in a heap of 64 GiB on tmpfs, where no medium is waited for, having read so much of it first: one line changed, and nothing.")
    rows = []
    with fresh(MEMORY) as folder:
        heap = folder / "sparse.heap"
        subprocess.run([path["lines"], heap, "make", "64"], env=ENVIRONMENT, check=True)
        for gib in [0] if small else [0, 4]:
            for told, kind, track in (("lines", "lines", "lines"), ("verify", "lines", "verify"), ("pages", "pages", "pages")):
                one, none, rounds = numbers([path[kind], heap, "scan", 0.5 if small else 2, gib], PERDURE_TRACK=track)
                rows.append([told, gib, f"{one / 1e3:.4f}", f"{none / 1e3:.4f}", f"{rounds:,.0f}"])
                if told == "lines":
                    lines = one / 1e3
    report.table(["tracking", "read (GiB)", "one line (ms)", "nothing (ms)", "rounds"], rows)
    targets.append(["commit in a mostly clean heap of 64 GiB, line mode (ms)", "<= 1", f"{lines:.4f}", lines <= 1])
    return targets
