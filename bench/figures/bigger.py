"""Heaps larger than memory: an ingest whose heap grows to 4 GiB in a control group of 512 MiB, beside gawk's persistent heap.

    ./x bench bigger [--small]        as root

The same lines go to both, from a generator outside of the group. gawk gets as much time as LIMIT_S; what it did until then is
reported, by its own count. --small: an eighth of everything.
"""

import contextlib
import os
import pathlib
import subprocess
import time

from .harness import FOLDER, MIB, PMAWK

LIMIT_S = 900
# Lines of 420 bytes, all different, that begin with random digits: with its entry and its part of the index such a key takes
# 500 bytes of pmawk's heap.
GENERATOR = """
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
int main(int argc, char **argv) {
    uint64_t n = strtoull(argv[1], 0, 10), s = 88172645463325252u;
    static char pad[512];
    (void)argc;
    for (int i = 0; i < 392; i++) pad[i] = "the quick brown fox jumps over the lazy dog, "[i % 45];
    for (uint64_t i = 0; i < n; i++) {
        s ^= s << 13; s ^= s >> 7; s ^= s << 17;
        printf("%016" PRIx64 "/%s/%010" PRIu64 "\\n", s, pad, i);
    }
}
"""


@contextlib.contextmanager
def bound(limit):
    """A control group with that much memory; none where it cannot be made."""
    v1 = pathlib.Path("/sys/fs/cgroup/memory")
    root, name = (v1, "memory.limit_in_bytes") if (v1 / "cgroup.procs").exists() else (v1.parent, "memory.max")
    group = root / f"perdure-bench-{os.getpid()}"
    try:
        group.mkdir()
        (group / name).write_text(str(limit))
    except OSError:
        yield None
        return
    try:
        yield group
    finally:
        for _ in range(100):
            try:
                group.rmdir()
                break
            except OSError:
                time.sleep(0.05)


def execute(lines, command, group, extra=None, limit_s=LIMIT_S):
    """Wall time of `command` over that many lines, and what it printed; no time if it was stopped at the limit."""
    env = {k: v for k, v in os.environ.items() if k not in ("PMAWK_HEAP", "GAWK_PERSIST_FILE")}
    env.update({"LC_ALL": "C", **(extra or {})})
    enter = ["sh", "-c", 'echo $$ >"$0" && exec "$@"', str(group / "cgroup.procs")] if group else []
    source = subprocess.Popen([FOLDER / "long_lines", str(lines)], stdout=subprocess.PIPE)
    started = time.monotonic()
    worker = subprocess.Popen([*enter, *command], env=env, stdin=source.stdout, stdout=subprocess.PIPE)
    source.stdout.close()
    try:
        output, _ = worker.communicate(timeout=limit_s)
        took = time.monotonic() - started
        if worker.returncode != 0:
            raise RuntimeError(f"{command}: status {worker.returncode}")
    except subprocess.TimeoutExpired:
        worker.kill()
        output, _ = worker.communicate()
        took = None
    source.kill()
    source.wait()
    return took, output.decode()


def remove(heap):
    for end in ("", ".journal", ".sums"):
        pathlib.Path(str(heap) + end).unlink(missing_ok=True)


def run(report, small):
    """The part: `report` has say(line) and table(head, rows)."""
    scale = 8 if small else 1
    lines, memory = 9_000_000 // scale, 512 * MIB // scale
    (FOLDER / "long_lines.c").write_text(GENERATOR)
    subprocess.run(["gcc", "-O2", "-o", FOLDER / "long_lines", FOLDER / "long_lines.c"], check=True)
    ours, theirs = FOLDER / "bigger.heap", FOLDER / "bigger.gawk"
    persist = f"--persist={ours}"
    report.say(f"{lines:,} different lines of 420 bytes become the keys of an array; {memory // MIB} MiB of memory where bounded.")
    rows = []

    def row(what, took, note=""):
        rows.append([what, "-" if took is None else f"{took:.1f}", note])
        print(f"  {rows[-1]}", flush=True)

    ingest = "{ id[$0] = NR } END { print length(id) }"
    ask = "{ s += id[$0] } END { print s }"
    with bound(memory) as group:
        if group is None:
            report.say("Left out: no control group for memory can be made here.")
            return
        for what, where, extra in (
            ("pmawk, ingest, all the machine's memory", None, []),
            ("pmawk, ingest, bounded, --commit-every=100000", group, ["--commit-every=100000"]),
            ("pmawk, ingest, bounded", group, []),
        ):
            remove(ours)
            took, _ = execute(lines, [PMAWK, persist, *extra, ingest], where)
            row(what, took, f"heap of {ours.stat().st_size // MIB:,} MiB")
        took, answer = execute(10_000, [PMAWK, persist, "--snapshot", ask], group)
        assert answer.strip() == str(10_000 * 10_001 // 2), answer
        row("pmawk, 10,000 questions, bounded", took)
        took, _ = execute(lines, [PMAWK, persist, "{ id[$0]++ }"], group)
        row("pmawk, every value changed, bounded", took, "one commit")
        took, answer = execute(10_000, [PMAWK, persist, "--snapshot", ask], group)
        assert answer.strip() == str(10_000 * 10_001 // 2 + 10_000), answer
        remove(ours)
        for prefix in ([], ["setarch", "-R"]):
            theirs.unlink(missing_ok=True)
            with open(theirs, "wb") as file:
                file.truncate(16 << 30)
            theirs.chmod(0o600)
            heap = {"GAWK_PERSIST_FILE": str(theirs)}
            try:
                execute(1, [*prefix, "gawk", "{ seen = 1 }"], None, heap)
                _, answer = execute(1, [*prefix, "gawk", "BEGIN { print seen }"], None, heap)
            except (RuntimeError, OSError):
                continue
            if answer.strip() == "1":
                progress = FOLDER / "bigger.progress"
                progress.write_text("0")
                program = 'NR % 100000 == 0 { print NR > P; close(P) } ' + ingest
                command = [*prefix, "gawk", "-v", f"P={progress}", program]
                took, _ = execute(lines, command, group, heap)
                done = f"stopped after {LIMIT_S} s at {int(progress.read_text()):,} lines; " if took is None else ""
                row("gawk, ingest, bounded", took, f"{done}heap of {theirs.stat().st_blocks * 512 // MIB:,} MiB, not crash-safe")
                break
        else:
            row("gawk, ingest, bounded", None, "this gawk has no persistent memory")
        theirs.unlink(missing_ok=True)
    report.table(["what", "seconds", ""], rows)
