#!/usr/bin/env python3
"""Plants each mistake of mistakes.txt in a copy of the sources and shows that the crash ladder catches it.

A ladder that never fails proves nothing; these are the mistakes it exists for. Takes some minutes (each mistake is compiled).

    tests/mutations/run.py [NAME-PART]

Exit status 0: all were caught. 1: one survived, or its text is not in the sources any more.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
STATES = "150000"
SEED = "77"


def mistakes():
    """Yields (name, file, old text, new text)."""
    for part in (HERE / "mistakes.txt").read_text().split("\n=== ")[1:]:
        head, _, body = part.partition("\n")
        name, _, file = head.partition(" | ")
        old, _, new = body.partition("\n--->\n")
        yield name, file, old.strip("\n"), new.strip("\n")


def main():
    wanted = sys.argv[1] if len(sys.argv) > 1 else ""
    caught = failures = 0
    with tempfile.TemporaryDirectory() as scratch:
        tree = pathlib.Path(scratch)
        shutil.copytree(ROOT / "crates", tree / "crates", ignore=shutil.ignore_patterns("target"))
        for crate in ("awk", "awk-syntax"):
            shutil.rmtree(tree / "crates" / crate, ignore_errors=True)
        shutil.copy(ROOT / "Cargo.lock", tree)
        manifest = (ROOT / "Cargo.toml").read_text()
        start = manifest.index("members = [")
        end = manifest.index("]", start) + 1
        (tree / "Cargo.toml").write_text(manifest[:start] + 'members = ["crates/*"]' + manifest[end:])
        env = dict(os.environ, PERDURE_CRASH_STATES=STATES, PERDURE_TEST_SEED=SEED, CARGO_TARGET_DIR=str(tree / "target"))
        for name, file, old, new in mistakes():
            if wanted not in name:
                continue
            path = tree / "crates" / file
            text = path.read_text()
            if text.count(old) != 1:
                print(f"LOST      {name}: its text stands {text.count(old)} times in {file}")
                failures += 1
                continue
            path.write_text(text.replace(old, new))
            command = ["cargo", "test", "--release", "-q", "-p", "region", "--test", "crash"]
            run = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, check=False)
            path.write_text(text)
            if "could not compile" in run.stderr:
                print(f"BROKEN    {name}: does not compile\n{run.stderr}")
                failures += 1
            elif run.returncode == 0:
                print(f"SURVIVED  {name}")
                failures += 1
            else:
                print(f"caught    {name}", flush=True)
                caught += 1
    print(f"mutations: {caught} passed, {failures} failed")
    sys.exit(1 if failures else 0)


main()
