#!/usr/bin/env python3
"""Runs the oracles on cases and writes what they say into the cases.

    accept.py CASE...            show what gawk, mawk and original-awk print, where they part,
                                 and where they part from the expectation in the case
    accept.py --write CASE...    fill in a missing `--- stdout` and `status:`, when all oracles agree that
                                 are not listed for this case in exceptions.txt
    accept.py --rewrite ...      also replace an expectation that is already there

CASE is a path to a .case file or a folder. Differences between an oracle and the expectation are
printed in the form of exceptions.txt, with the reason left for a person to write.
A case that says `oracles: gawk` or `oracles: gawk-5.3` asks only gawk, or only a gawk that is new enough;
the environment variable GAWK names the gawk to run in place of the one in the PATH.
The format is described in ../README.md; the runner proper is crates/testkit/src/oracle/.
"""
import concurrent.futures
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PROGRAMS = {"gawk": os.environ.get("GAWK", "gawk"), "mawk": "mawk", "original-awk": "original-awk"}


def unescape(body):
    out, i = bytearray(), 0
    body = body.replace(b"\n", b"")
    while i < len(body):
        if body[i] != 0x5C:
            out.append(body[i])
            i += 1
            continue
        c = body[i + 1 : i + 2]
        if c == b"x":
            out.append(int(body[i + 2 : i + 4], 16))
            i += 4
        else:
            out += {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"\\": b"\\"}[c]
            i += 2
    return bytes(out)


def escape(data):
    out = bytearray()
    for b in data:
        if b == 0x0A:
            out += b"\\n\n"
        elif b == 0x09:
            out += b"\\t"
        elif b == 0x0D:
            out += b"\\r"
        elif b == 0x5C:
            out += b"\\\\"
        elif b < 0x20 or b >= 0x7F:
            out += b"\\x%02x" % b
        else:
            out.append(b)
    if not out.endswith(b"\n"):
        out += b"\n"
    return bytes(out)


def needs_escape(data):
    if data and not data.endswith(b"\n"):
        return True
    if any(b < 0x20 and b not in (9, 10) for b in data) or b"\n--- " in b"\n" + data:
        return True
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return True
    return False


class Case:
    def __init__(self, path):
        self.path = path
        self.name = os.path.relpath(path, ROOT)[: -len(".case")]
        raw = open(path, "rb").read()
        self.headers, self.sections, self.files, self.left = [], {}, [], []
        current, escaped, body = None, False, []

        def close():
            if current is None:
                return
            data = b"".join(body)
            data = unescape(data) if escaped else data
            if current[0] == "file":
                self.files.append((current[1], data))
            elif current[0] == "left":
                self.left.append((current[1], data))
            else:
                self.sections[current[0]] = data

        for line in raw.splitlines(keepends=True) if b"\r" not in raw else [l + b"\n" for l in raw.split(b"\n")[:-1]]:
            if line.startswith(b"--- "):
                close()
                words = line.decode().split()[1:]
                escaped = words[-1] == "escaped"
                if escaped:
                    words.pop()
                current, body = words, []
            elif current is not None:
                body.append(line)
            elif line.strip() and not line.startswith(b"#"):
                key, value = line.decode().rstrip("\n").split(":", 1)
                self.headers.append((key, value.strip()))
        close()

    def all(self, key):
        return [v for k, v in self.headers if k == key]

    def get(self, key, default=None):
        return (self.all(key) or [default])[0]

    def run(self, awk):
        with tempfile.TemporaryDirectory() as top:
            work = os.path.join(top, "work")
            os.mkdir(work)
            for name, data in self.files:
                target = os.path.join(work, name)
                os.makedirs(os.path.dirname(target), exist_ok=True)
                with open(target, "wb") as f:
                    f.write(data)
            env = {"PATH": "/usr/local/bin:/usr/bin:/bin", "LC_ALL": self.get("locale", "C.UTF-8"), "TZ": "UTC", "TMPDIR": top, "AWK": awk}
            for pair in self.all("env"):
                k, v = pair.split("=", 1)
                env[k] = v
            if "cmd" in self.sections:
                argv = ["sh", "-c", self.sections["cmd"]]
            else:
                with open(os.path.join(work, "prog.awk"), "wb") as f:
                    f.write(self.sections["program"])
                argv = [awk, "-f", "prog.awk"] + self.get("args", "").split()
            with tempfile.TemporaryFile() as stdin:
                stdin.write(self.sections.get("stdin", b""))
                stdin.seek(0)
                p = subprocess.Popen(argv, cwd=work, env=env, stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True)
                try:
                    out, err = p.communicate(timeout=20)
                    status = p.returncode if p.returncode >= 0 else 128 - p.returncode
                except subprocess.TimeoutExpired:
                    os.killpg(p.pid, signal.SIGKILL)
                    out, err = p.communicate()
                    status = "timeout"
            left = []
            for name, _ in self.left:
                try:
                    left.append(open(os.path.join(work, name), "rb").read())
                except OSError:
                    left.append(None)
            return status, out, left, err

    def expected(self):
        if "stdout" not in self.sections:
            return None
        return int(self.get("status", "0")), self.sections["stdout"], [d for _, d in self.left]

    def write(self, status, out, left):
        lines, skipping = [], False
        raw = open(self.path, "rb").read()
        body_seen = False
        for line in raw.split(b"\n")[:-1]:
            line += b"\n"
            if line.startswith(b"--- "):
                if not body_seen and status != 0:
                    lines.append(b"status: %d\n" % status)
                body_seen = True
                skipping = line.split()[1] in (b"stdout", b"left")
            if not body_seen and line.startswith(b"status:"):
                continue
            if not skipping:
                lines.append(line)
        for head, data in [("stdout", out)] + [("left " + n, d or b"") for (n, _), d in zip(self.left, left)]:
            if needs_escape(data):
                lines.append(b"--- %s escaped\n" % head.encode() + escape(data))
            else:
                lines.append(b"--- %s\n" % head.encode() + data)
        with open(self.path, "wb") as f:
            f.write(b"".join(lines))


def cases_under(args):
    for arg in args:
        if os.path.isfile(arg):
            yield Case(arg)
        else:
            for folder, _, names in sorted(os.walk(arg)):
                for name in sorted(names):
                    if name.endswith(".case"):
                        yield Case(os.path.join(folder, name))


def gawk_version(program):
    text = subprocess.run([program, "--version"], stdout=subprocess.PIPE, text=True).stdout
    return tuple(map(int, re.match(r"GNU Awk (\d+)\.(\d+)", text).groups()))


def asks(case, who, version):
    """Whether the oracle `who` can say what `case` must print; `version` is that of the gawk at hand."""
    wanted = case.get("oracles", "all")
    if wanted == "all":
        return True
    name, _, least = wanted.partition("-")
    return who == name and tuple(map(int, least.split(".") if least else ())) <= version


def load_exceptions():
    with open(os.path.join(ROOT, "exceptions.txt")) as f:
        return {tuple(line.split()[:2]) for line in f if line.strip() and not line.startswith("#")}


def is_excepted(excepted, case, who, version):
    """Whether exceptions.txt lists `who` for `case`; `gawk-5.2` is every gawk up to 5.2."""
    if (case.name, who) in excepted:
        return True
    upto = [w[5:] for c, w in excepted if c == case.name and w.startswith("gawk-")] if who == "gawk" else []
    return any(version <= tuple(map(int, v.split("."))) for v in upto)


def differs(result, want):
    return repr(tuple(result[:3])) != repr(tuple(want[:3]))


def print_bytes(label, data):
    print(label, repr(data[:400])[2:-1])


def main():
    args = sys.argv[1:]
    rewrite = "--rewrite" in args
    write = "--write" in args or rewrite
    paths = [a for a in args if not a.startswith("--")]
    excepted = load_exceptions()
    oracles = [o for o in PROGRAMS if shutil.which(PROGRAMS[o])]
    version = gawk_version(PROGRAMS["gawk"]) if "gawk" in oracles else None
    differing = 0

    def study(case):
        if case.get("oracles") == "none" or case.get("modes") == "session":
            return case, None
        return case, {o: case.run(PROGRAMS[o]) for o in oracles if asks(case, o, version)}

    with concurrent.futures.ThreadPoolExecutor(2) as pool:
        for case, results in pool.map(study, list(cases_under(paths))):
            if not results:
                continue
            want = case.expected()
            if write and (want is None or rewrite):
                heard = [r for o, r in results.items() if not is_excepted(excepted, case, o, version)]
                same = len({repr(r[:3]) for r in heard}) == 1
                chosen = heard[0] if same else None
                if chosen and chosen[0] != "timeout":
                    case.write(*chosen[:3])
                    want = chosen[:3]
            if want is None:
                print(f"## {case.name}: oracles part, no expectation written")
            else:
                unlisted = [o for o, r in results.items() if differs(r, want) and not is_excepted(excepted, case, o, version)]
                if unlisted:
                    print_bytes("## expected", want[1])
            for o, r in results.items():
                is_listed = is_excepted(excepted, case, o, version)
                if want is not None and differs(r, want) == is_listed:
                    continue
                differing += 1
                if want is not None and is_listed:
                    print(f"{case.name} {o}: listed in exceptions.txt but agrees")
                    continue
                print(f"{case.name} {o}  status {r[0]}")
                print_bytes("     ", r[1])
                if r[3]:
                    print_bytes("  err", r[3])
                if want is not None and r[2] != want[2]:
                    print("  files", r[2])
    print(f"{differing} differences")


if __name__ == "__main__":
    main()
