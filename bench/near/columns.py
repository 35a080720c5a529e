#!/usr/bin/env python3
"""One application on one line: every column in turn, round by round. Runs inside a rig, and writes what it measured as JSON.

    columns.py SPEC RESULT      SPEC: {"application", "rounds", "columns", "nearsh"}

Invariant: every run starts from the same state. The server's files are as the data was made and in its memory, and the client has cached nothing:
its mounts are new.
"""

import hashlib
import json
import os
import pathlib
import shlex
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
    "git": "cd repository && git reset -q --hard base && git clean -fdq && sh ../changes && git status >/dev/null",
}
LEFT = {"ray-tracing": "logs/rays.csv", "port-scan": "scan/addresses scan/systems scan/popularity", "thumbnails": "images/thumbs"}
ENVIRONMENT = {**{k: v for k, v in os.environ.items() if k != "LANG" and not k.startswith("LC_")}, "LC_ALL": "C"}

LONG_S = 120  # what takes longer is not repeated


def on_host(host, script):
    return subprocess.run(["rig", "in", host, "sh", "-c", f"cd {EXPORT} && {script}"], check=True, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=ENVIRONMENT).stdout


def bytes_moved():
    lines = subprocess.run(["rig", "count"], check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()
    return sum(int(number) for line in lines for number in line.split()[1:3])


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
    script = APPLICATIONS / f"{application}.sh"
    for host in HOSTS:
        on_host(host, RESET[application] or "true")
        on_host(host, "find . -type f -exec cat {} + >/dev/null")
        subprocess.run(["rig", "in", host, "tee", "/tmp/script"], check=True, input=script.read_bytes(), stdout=subprocess.DEVNULL)
        subprocess.run(["rig", "remount", host], check=True)
    os.sync()


def run(column, application, nearsh):
    prepare(application)
    before = bytes_moved()
    start = time.perf_counter()
    done = subprocess.run(words_of(column, application, nearsh), stdin=subprocess.DEVNULL, capture_output=True, check=False, env=ENVIRONMENT)
    seconds = time.perf_counter() - start
    moved = bytes_moved() - before
    left = b"".join(on_host(host, f"find {LEFT[application]} -type f -exec sha256sum {{}} + | sort -k 2") for host in HOSTS) if application in LEFT else b""
    return {
        "column": column,
        "seconds": seconds,
        "moved": moved,
        "status": done.returncode,
        "result": hashlib.sha256(done.stdout + b"\0" + left).hexdigest(),
        "output": done.stdout[-2000:].decode(errors="replace"),
        "errors": done.stderr[-2000:].decode(errors="replace"),
    }


def main():
    spec = json.loads(sys.argv[1])
    line = subprocess.run([pathlib.Path(__file__).resolve().parents[2] / "tests/near/measure-line", HOSTS[0], "1"], check=True, stdout=subprocess.PIPE, text=True).stdout
    runs = []
    for _ in range(spec["rounds"]):
        for column in spec["columns"]:
            if any(run["column"] == column and run["seconds"] > LONG_S for run in runs):
                continue
            runs.append(run(column, spec["application"], spec["nearsh"]))
            print(f"  {spec['application']}, {column}: {runs[-1]['seconds']:.2f} s", flush=True)
    pathlib.Path(sys.argv[2]).write_text(json.dumps({"line": line.strip(), "runs": runs}))


if __name__ == "__main__":
    main()
