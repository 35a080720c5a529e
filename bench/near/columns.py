#!/usr/bin/env python3
"""One application on one line: every column in turn, round by round. Runs inside a rig (tests/near/rig), or on the client of bench/near/uml/lab, and
writes what it measured as JSON.

    columns.py SPEC RESULT      SPEC: {"application", "rounds", "columns", "nearsh"}

Invariant: every run starts from the same state. The server's files are as the data was made and in its memory, and the client has cached nothing:
its mounts are new.
"""

import hashlib
import json
import os
import pathlib
import shlex
import shutil
import socket
import statistics
import subprocess
import sys
import time

APPLICATIONS = pathlib.Path(__file__).resolve().parent / "apps"
MOUNTS, EXPORT, HOSTS = os.environ["NEAR_MNT"], os.environ["NEAR_EXPORT"], os.environ["NEAR_HOSTS"].split()
# What the server does before each run, and what an application leaves there, below the export.
RESET = {
    "log-grep": "",
    "ray-tracing": "rm -f logs/rays.csv",
    "port-scan": "cd scan && rm -f addresses systems popularity",
    "thumbnails": "rm -rf images/thumbs",
    "in-file-awk": "",
    "in-file-grep": "",
    "in-file-sort": "",
    "git": "cd repository && git reset -q --hard base && git clean -fdq && sh ../changes && git status >/dev/null",
}
LEFT = {"ray-tracing": "logs/rays.csv", "port-scan": "scan/addresses scan/systems scan/popularity", "thumbnails": "images/thumbs"}
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "LANG" and not k.startswith("LC_")}, "LC_ALL": "C"}

LONG_S = 120  # what takes longer is not repeated


class Rig:
    """Hosts that are namespaces, and mounts by sshfs."""

    def on_host(self, host, script, data=None):
        return subprocess.run(["rig", "in", host, "sh", "-c", script], check=True, input=data or b"", stdout=subprocess.PIPE, env=ENVIRONMENT).stdout

    def remount(self, host):
        subprocess.run(["rig", "remount", host], check=True)

    def bytes_moved(self):
        lines = subprocess.run(["rig", "count"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
        return sum(int(number) for line in lines for number in line.split()[1:3])

    def line(self):
        measure = pathlib.Path(__file__).resolve().parents[2] / "tests/near/measure-line"
        return subprocess.run([measure, HOSTS[0], "1"], check=True, stdout=subprocess.PIPE, text=True).stdout.strip()


class Guest:
    """One server with a kernel of its own, and a mount by NFS."""

    def on_host(self, host, script, data=None):
        return subprocess.run(["ssh", host, script], check=True, input=data or b"", stdout=subprocess.PIPE).stdout

    def remount(self, host):
        place = f"{MOUNTS}/{host}"
        options = next(line.split()[3] for line in open("/proc/mounts") if line.split()[1] == place)
        kept = [option for option in options.split(",") if option.split("=")[0] in ("vers", "addr", "clientaddr")]
        subprocess.run(["umount", place], check=True)
        pathlib.Path("/proc/sys/vm/drop_caches").write_text("3\n")
        subprocess.run(["mount", "-i", "-t", "nfs4", "-o", ",".join(kept), f"{host}:{EXPORT}", place], check=True)

    def bytes_moved(self):
        """Of the device: with Ethernet's headers."""
        words = next(line.split(":")[1].split() for line in open("/proc/net/dev") if line.strip().startswith("vec0:"))
        return int(words[0]) + int(words[8])

    def line(self):
        taken = []
        for _ in range(15):
            start = time.perf_counter()
            socket.create_connection((HOSTS[0], 22)).close()
            taken.append((time.perf_counter() - start) * 1000)
        return f"connect_ms {statistics.median(taken):.2f}"


PLACE = Guest() if "NEAR_LAB" in os.environ else Rig()


def on_host(host, script):
    return PLACE.on_host(host, f"cd {EXPORT} && {script}")


def words_of(column, application, nearsh):
    script = APPLICATIONS / f"{application}.sh"
    if column == "bash over the mount":
        return ["bash", script, MOUNTS, EXPORT]
    if column == "GNU parallel":
        return ["bash", APPLICATIONS / f"{application}.parallel.sh", MOUNTS, EXPORT]
    if column == "bash on the server":
        # The export lies where the client has it mounted, for this one process.
        command = f"mount --bind {EXPORT} {MOUNTS}/{HOSTS[0]} && exec env LC_ALL=C bash /tmp/script {MOUNTS} {EXPORT}"
        return ["ssh", HOSTS[0], f"unshare --mount --propagation private sh -c {shlex.quote(command)}"]
    return [nearsh, script, MOUNTS, EXPORT]


def prepare(application):
    script = (APPLICATIONS / f"{application}.sh").read_bytes()
    for host in HOSTS:
        on_host(host, RESET[application] or "true")
        on_host(host, "find . -type f -exec cat {} + >/dev/null")
        PLACE.on_host(host, "cat >/tmp/script", script)
        PLACE.remount(host)
    os.sync()


def run(column, application, nearsh):
    prepare(application)
    is_ours = column == "nearsh"
    had = len(planned(nearsh, 0)) if is_ours else 0
    before = PLACE.bytes_moved()
    start = time.perf_counter()
    done = subprocess.run(words_of(column, application, nearsh), stdin=subprocess.DEVNULL, capture_output=True, check=False, env=ENVIRONMENT)
    seconds = time.perf_counter() - start
    moved = PLACE.bytes_moved() - before
    left = b"".join(on_host(host, f"find {LEFT[application]} -type f -exec sha256sum {{}} + | sort -k 2") for host in HOSTS) if application in LEFT else b""
    return {
        "column": column,
        "seconds": seconds,
        "moved": moved,
        "planned": planned(nearsh, had) if is_ours else [],
        "status": done.returncode,
        "result": hashlib.sha256(done.stdout + b"\0" + left).hexdigest(),
        "output": done.stdout[-2000:].decode(errors="replace"),
        "errors": done.stderr[-2000:].decode(errors="replace"),
    }


def planned(nearsh, before):
    """How many milliseconds each pipeline took from its last helper to the word to the hosts, of those that ran elsewhere since there were `before`."""
    lines = subprocess.run([nearsh, "stats"], check=True, capture_output=True, text=True).stdout.splitlines()[1:]
    return [float(line.split(" ms ")[0].split()[-1]) for line in lines[before:]]


def seconds_of(words):
    start = time.perf_counter()
    subprocess.run(words, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, env=ENVIRONMENT, cwd="/")
    return time.perf_counter() - start


def overhead(nearsh):
    """What nearsh adds where nothing can run elsewhere, in milliseconds: to a script, and to each command of one. A host is mounted, and connected."""
    commands = 500
    loop = f"for ((i = 0; i < {commands}; i++)); do cut -c 1 /dev/null; done"
    subprocess.run([nearsh, "-c", f"wc -l {MOUNTS}/{HOSTS[0]}/*"], check=False, capture_output=True, env=ENVIRONMENT)

    def added(text, rounds):
        pairs = [(seconds_of(["bash", "-c", text]), seconds_of([nearsh, "-c", text])) for _ in range(rounds)]
        bash, own = (statistics.median(side) for side in zip(*pairs))
        return 1000 * (own - bash)

    script = added(":", 200)
    return {"script": script, "command": (added(loop, 7) - script) / commands}


def main():
    spec = json.loads(sys.argv[1])
    line = PLACE.line()
    # What was learned on another line is of no use on this one.
    shutil.rmtree(pathlib.Path(os.environ.get("XDG_STATE_HOME", "/nowhere")) / "nearsh", ignore_errors=True)
    if spec["application"] == "overhead":
        pathlib.Path(sys.argv[2]).write_text(json.dumps({"line": line, "runs": [], "overhead": overhead(spec["nearsh"])}))
        return
    runs = []
    for _ in range(spec["rounds"]):
        for column in spec["columns"]:
            if any(run["column"] == column and run["seconds"] > LONG_S for run in runs):
                continue
            runs.append(run(column, spec["application"], spec["nearsh"]))
            print(f"  {spec['application']}, {column}: {runs[-1]['seconds']:.2f} s", flush=True)
    pathlib.Path(sys.argv[2]).write_text(json.dumps({"line": line, "runs": runs}))


if __name__ == "__main__":
    main()
