"""What every part of the benchmark needs: one measured run, the peers, the machine, and a report with targets.

Invariant: everything that is written lies in FOLDER (or the tmpfs, for output), and the dated records in bench/record/.
"""

import datetime
import functools
import hashlib
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
STATE = ROOT / ".x"
FOLDER = pathlib.Path(os.environ.get("PERDURE_BENCH_FOLDER", STATE / "bench"))
TARGET = pathlib.Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
RECORD = ROOT / "bench" / "record"
PMAWK = TARGET / "release" / "pmawk"
GOAWK = "github.com/benhoyt/goawk"
MEMORY = pathlib.Path("/dev/shm")
MIB = 1 << 20


def environment():
    """C locale for all: the fastest setting of each of them. No heap but those that we name."""
    keep = {k: v for k, v in os.environ.items() if k not in ("PMAWK_HEAP", "GAWK_PERSIST_FILE", "LANG") and not k.startswith("LC_")}
    return {**keep, "LC_ALL": "C"}


@functools.cache
def compiled(source):
    """A C program of bench/, built into FOLDER."""
    program = FOLDER / pathlib.Path(source).stem
    subprocess.run(["gcc", "-O3", "-Wall", "-o", program, ROOT / "bench" / source, "-lm"], check=True)
    return program


def output_folder():
    """Where output goes that is too much for a pipe: memory if it can be, for it is not the disk that is measured."""
    return MEMORY if os.access(MEMORY, os.W_OK) else FOLDER


class Run:
    """What one run of a command cost, in seconds and bytes, and what it printed: `output`, or the file that was named for it.

    `written` counts whole pages that became dirty for a disk, `passed` what went through write and its like, output too.

    After `limit` seconds the command is killed, which `over` tells; without a limit it runs as long as it runs.
    """

    def __init__(self, command, extra=None, limit=0, output=None):
        report = FOLDER / "report"
        with open(output or FOLDER / "output", "wb") as printed:
            done = subprocess.run(
                [FOLDER / "measure", report, str(limit), *command],
                env={**environment(), **(extra or {})},
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.PIPE,
                check=False,
            )
        if done.returncode != 0:
            raise RuntimeError(f"{command}: {done.stderr.decode()}")
        wall, user, system, self.peak_kib, minor, major, self.written, self.passed, over, status = map(int, report.read_text().split())
        self.over = over == 1
        if status != 0 and not self.over:
            raise RuntimeError(f"{command}: status {status}: {done.stderr.decode()}")
        self.wall = wall / 1e6
        self.cpu = (user + system) / 1e6
        self.faults = minor + major
        self.output = None if output else (FOLDER / "output").read_bytes()


def fingerprint(path, in_order=True):
    """Of a file's content; of its lines in any order if their order is nobody's promise."""
    data = path.read_bytes()
    if not in_order:
        data = b"\n".join(sorted(data.split(b"\n")))
    return hashlib.sha256(data).hexdigest()


def median(runs, what):
    return statistics.median(getattr(run, what) for run in runs)


def spread(values):
    """Half of the range where values are few; the median deviation from the median where they are many, and a few of them
    met with something else that the machine had to do."""
    if len(values) <= 10:
        return (max(values) - min(values)) / 2
    middle = statistics.median(values)
    return statistics.median(abs(value - middle) for value in values)


class Report:
    """Lines for people, on the terminal and in the record."""

    def __init__(self, name):
        self.name = name
        self.lines = []
        self.pictures = {}
        self.date = datetime.date.today().isoformat()

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

    def picture(self, name, svg, title):
        """A picture, which is kept beside the record and shown in it."""
        file = f"{self.date}-{name}.svg"
        self.pictures[file] = svg
        self.lines += ["", f"![{title}]({file})", ""]

    def save(self, folder):
        path = folder / f"{self.date}-{self.name}.md"
        folder.mkdir(parents=True, exist_ok=True)
        path.write_text(f"# {self.name}, {self.date}\n\n" + "\n".join(self.lines).strip() + "\n")
        for file, svg in self.pictures.items():
            (folder / file).write_text(svg)
        print(f"record: {path.relative_to(ROOT) if path.is_relative_to(ROOT) else path}")


def first_line(command, extra=None):
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL, env={**os.environ, **(extra or {})}
        )
        return (done.stdout or done.stderr).strip().splitlines()[0]
    except (OSError, IndexError):
        return "?"


def file_system(path):
    return first_line(["findmnt", "-no", "FSTYPE", "-T", str(path)])


def machine(report):
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    memory_kib = next(int(line.split()[1]) for line in open("/proc/meminfo") if line.startswith("MemTotal"))
    kernel = platform.release().split("-")[0]
    commit = first_line(["git", "-C", str(ROOT), "describe", "--always", "--dirty"])
    report.say(f"Machine: {cpu}, {os.cpu_count()} processors, {memory_kib / MIB:.0f} GiB, Linux {kernel}, {file_system(FOLDER)}.")
    report.say(f"Commit: {commit}. Load average at the start: {os.getloadavg()[0]:.2f}.")


def gawk():
    """The newest gawk here: the one that ./x found or built, or the system's."""
    built = STATE / "gawk-5.3" / "bin" / "gawk"
    return os.environ.get("GAWK") or (str(built) if built.exists() else "gawk")


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
    commands = {
        "pmawk": [str(PMAWK)],
        "gawk": [gawk()],
        "mawk": ["mawk"],
        "goawk": [goawk()],
        "original-awk": ["original-awk"],
        "busybox": ["busybox", "awk"],
    }
    versions = {"gawk": ["--version"], "mawk": ["-W", "version"], "goawk": ["-version"], "original-awk": ["-version"]}
    here = {name: command for name, command in commands.items() if command[0] and shutil.which(command[0])}
    told = [f"{name} ({first_line([*here[name], *versions[name]])})" for name in here if name in versions]
    report.say("Peers: " + ", ".join(told) + (", busybox." if "busybox" in here else "."))
    for name in sorted(commands.keys() - here.keys()):
        report.say(f"Not here: {name}.")
    return here


def pm_gawk(path, size):
    """The command and the environment for gawk with a new, empty heap of `size` bytes; None if no gawk here has such a thing."""
    where = {"GAWK_PERSIST_FILE": str(path)}
    # From 5.3 on it refuses root, so there may be more than one to ask; a program that is loaded at random addresses needs a
    # fixed layout for its pointers.
    for command in ([gawk()], ["setarch", "-R", gawk()], ["gawk"], ["setarch", "-R", "gawk"]):
        new_gawk_heap(path, size)
        try:
            Run([*command, "BEGIN { n[1] = 1 }"], where)
            kept = Run([*command, "BEGIN { print (length(n) == 1) }"], where).output.strip() == b"1"
        except RuntimeError:
            continue
        if kept:
            new_gawk_heap(path, size)
            return command, where
    path.unlink(missing_ok=True)
    return None


def new_gawk_heap(path, size):
    path.unlink(missing_ok=True)
    with open(path, "wb") as file:
        file.truncate(size)
    path.chmod(0o600)


def heap_files(path):
    """A heap, and what lies beside it."""
    return [path, *(path.with_name(path.name + end) for end in (".journal", ".sums"))]


def remove_heap(path):
    for file in heap_files(path):
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
