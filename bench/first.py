#!/usr/bin/env python3
"""Writes bin/pmawk/first.txt: which functions short runs of pmawk call, for the linker to put them side by side.

    bench/first.py PMAWK ...

Asks valgrind what programs do that were built with their symbols (`cargo build --release -p pmawk`). The list is without the compiler's
hashes, and so fits later compilations too; it is worth writing anew when a start has become slower, not with each change.
"""

import bisect
import collections
import pathlib
import re
import subprocess
import sys
import tempfile

LIST = pathlib.Path(__file__).resolve().parent.parent / "bin" / "pmawk" / "first.txt"
PROGRAMS = [
    "BEGIN { }",
    "{ print $1 }",
    "{ n[$1]++ } END { for (k in n) printf \"%s %d\\n\", k, n[k] }",
]
INPUT = "one two\nthree four\none two\n"


def functions(program):
    """Addresses, sizes and names of a program's functions."""
    listed = subprocess.run(["nm", "-S", "--defined-only", program], check=True, capture_output=True, text=True).stdout
    rows = [line.split() for line in listed.splitlines()]
    return sorted((int(row[0], 16), int(row[1], 16), row[3]) for row in rows if len(row) == 4 and row[2] in "tTwWi")


def called(program, known):
    """The names of those that short runs call."""
    starts = [start for start, _, _ in known]
    names = set()
    for text in PROGRAMS:
        with tempfile.TemporaryDirectory() as folder:
            profile = pathlib.Path(folder) / "profile"
            words = ["valgrind", "--tool=callgrind", "--dump-instr=yes", f"--callgrind-out-file={profile}", program, text]
            subprocess.run(words, check=True, capture_output=True, text=True, input=INPUT)
            for line in profile.read_text().splitlines():
                if found := re.match(r"0x([0-9a-f]+) ", line):
                    address = int(found[1], 16)
                    at = bisect.bisect_right(starts, address) - 1
                    if at >= 0 and address < known[at][0] + max(known[at][1], 1):
                        names.add(known[at][2])
    return names


def pattern(name):
    """A name as a linker's pattern: without hashes, and without signs that mean something to the linker."""
    if found := re.match(r"(_ZN.*17h)[0-9a-f]{16}E", name):
        return re.sub(r"[^\w.]", "?", found[1]) + "*"
    if name == "main":
        return name
    if name.startswith("_R"):
        return re.sub(r"Cs[0-9A-Za-z]+_", "Cs*_", name)
    return None


def members():
    """Which file of the C library has a function."""
    where = subprocess.run(["cc", "-print-file-name=libc.a"], check=True, capture_output=True, text=True).stdout.strip()
    listed = subprocess.run(["nm", "-A", "--defined-only", where], check=False, capture_output=True, text=True).stdout
    files = {}
    for line in listed.splitlines():
        if found := re.match(r".*libc\.a:([^:]+):\S+ [tTwWi] (\S+)$", line):
            files.setdefault(found[2], found[1])
    return files


def main():
    programs = sys.argv[1:]
    if not programs:
        sys.exit(__doc__)
    files = members()
    lines = {}
    for program in programs:
        known = functions(program)
        fitting = collections.Counter(pattern(name) for _, _, name in known)
        for name in called(program, known):
            if found := pattern(name):
                lines[found] = max(lines.get(found, 0), fitting[found])
            elif name in files:
                lines[f"libc.a:{files[name]}"] = 0
    # What fits many functions, instances of generic ones, comes last: of those only some are called.
    LIST.write_text("\n".join(sorted(lines, key=lambda line: (lines[line], line))) + "\n")


main()
