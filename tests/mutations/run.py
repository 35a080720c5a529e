#!/usr/bin/env python3
"""Plants each mistake of mistakes.txt in a copy of the sources and shows that the crash ladder catches it; some by the ladder over C programs, too.

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
# Enough for every mistake, with some to spare.
LADDERS = {
    "regions": (["-p", "region", "--test", "crash"], "150000"),
    "programs": (["-p", "capi", "--test", "crash", "--", "any_compiler"], "20000"),
    # No ladder: files of the system's, of which pages can be mapped from elsewhere.
    "spilling": (["-p", "region", "--test", "spill"], "0"),
}
# What a ladder says that found something; its programs may fail to build.
FOUND = {"regions": "panicked", "programs": "run seed", "spilling": "panicked"}
SEED = "77"


def mistakes():
    """Yields (name, file, ladders, old text, new text)."""
    for part in (HERE / "mistakes.txt").read_text().split("\n=== ")[1:]:
        head, _, body = part.partition("\n")
        name, file, *others = head.split(" | ")
        old, _, new = body.partition("\n--->\n")
        yield name, file, others or ["regions"], old.strip("\n"), new.strip("\n")


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
        env = dict(os.environ, PERDURE_TEST_SEED=SEED, CARGO_TARGET_DIR=str(tree / "target"))
        for name, file, ladders, old, new in mistakes():
            if wanted not in name:
                continue
            path = tree / "crates" / file
            text = path.read_text()
            if text.count(old) != 1:
                print(f"LOST      {name}: its text stands {text.count(old)} times in {file}")
                failures += 1
                continue
            path.write_text(text.replace(old, new))
            for ladder in ladders:
                words, states = LADDERS[ladder]
                run = subprocess.run(
                    ["cargo", "test", "--release", "-q", *words],
                    cwd=tree,
                    env=dict(env, PERDURE_CRASH_STATES=states),
                    capture_output=True,
                    text=True,
                    check=False,
                )
                if run.returncode == 0:
                    print(f"SURVIVED  {name}, over {ladder}")
                    failures += 1
                elif FOUND[ladder] not in run.stdout:
                    print(f"BROKEN    {name}: does not compile, or not run, over {ladder}\n{run.stderr}")
                    failures += 1
                else:
                    print(f"caught    {name}, over {ladder}", flush=True)
                    caught += 1
            path.write_text(text)
    print(f"mutations: {caught} passed, {failures} failed")
    sys.exit(1 if failures else 0)


main()
