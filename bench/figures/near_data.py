"""What the applications of bench/near/apps work on: a folder for each host, made once and kept, with the same content for the same size.

Invariant: a folder with the file `made` beside it is whole.
"""

import concurrent.futures
import os
import shutil
import subprocess

from .harness import FOLDER, ROOT

MB = 10**6
HOSTS = {"log-grep": 5}  # of the others, one
# Small: a rehearsal. Guest: for User-mode Linux, whose network carries half as much. Full: bash over the mount takes a minute or two on the slower line.
SIZES = {
    "log-grep": {"full": 160 * MB, "small": 8 * MB},  # a host
    "ray-tracing": {"full": 600 * MB, "guest": 100 * MB, "small": 24 * MB},
    "port-scan": {"full": 250 * MB, "guest": 50 * MB, "small": 12 * MB},
    "thumbnails": {"full": 60, "guest": 12, "small": 6},
    # 50,000 files take ten minutes on the slower line (2026-11-22); Posh's figures are of the faster one, too.
    "in-file": {"full": 1000 * MB, "small": 50 * MB},
    "git": {"full": 50_000, "far": 10_000, "guest": 2_000, "small": 1_000},
}


def data_of(application):
    """Several applications work on one file."""
    return "in-file" if application.startswith("in-file-") else application


def size_of(application, scale):
    """Of a scale that an application does not have, the full one."""
    application = data_of(application)
    return SIZES[application].get(scale, SIZES[application]["full"])


FILES_OF_RAYS = 6
GIT = ["git", "-c", "init.defaultBranch=main", "-c", "user.name=bench", "-c", "user.email=bench@localhost"]


def generated(kind, size, seed, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "wb") as file:
        subprocess.run([FOLDER / "near" / "generate", kind, str(size), str(seed)], stdout=file, check=True)


def image(path, number, small):
    size = "1200x900" if small else "2400x1800"
    subprocess.run(["convert", "-seed", str(number), "-size", size, "plasma:fractal", "-blur", "0x1", "-quality", "90", path], check=True)


def repository(folder, files):
    """Files of about a kilobyte in folders of a hundred, in one commit; and a script that changes some of them."""
    root = folder / "repository"
    text = "".join(f"line {line} of a file that has its own number in each line: @\n" for line in range(16))
    for number in range(files):
        path = root / f"part{number // 10000}" / f"folder{number // 100 % 100:02}" / f"file{number % 100:02}.txt"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text.replace("@", str(number)))
    subprocess.run([*GIT, "init", "-q", root], check=True)
    settings = {
        "user.name": "bench",
        "user.email": "bench@localhost",
        "gc.auto": "0",
        # As for any working copy on a network file system: inodes and times of change are the client's own there, and git would read
        # every file again whenever it is mounted anew.
        "core.checkStat": "minimal",
        "core.trustctime": "false",
    }
    for name, value in settings.items():
        subprocess.run([*GIT, "-C", root, "config", name, value], check=True)
    for words in (["add", "."], ["commit", "-q", "-m", "Everything"], ["tag", "base"], ["gc", "-q"]):
        subprocess.run([*GIT, "-C", root, *words], check=True)
    changed = [files * share // 20 for share in range(20)]
    lines = [f"echo changed >>part{n // 10000}/folder{n // 100 % 100:02}/file{n % 100:02}.txt" for n in changed]
    lines += [f"echo new >part0/folder{n:02}/new.txt" for n in range(5)]
    (folder / "changes").write_text("\n".join(lines) + "\n")


def made(application, scale):
    """Folders by host."""
    size, small = size_of(application, scale), scale == "small"
    application = data_of(application)
    folder = FOLDER / "near" / "data" / f"{application}-{size}"
    hosts = {f"host{number + 1}": folder / f"host{number + 1}" for number in range(HOSTS.get(application, 1))}
    if (folder / "made").exists():
        return hosts
    print(f"making the data of {application}", flush=True)
    shutil.rmtree(folder, ignore_errors=True)
    (FOLDER / "near").mkdir(parents=True, exist_ok=True)
    subprocess.run(["gcc", "-O2", "-Wall", "-Wextra", "-o", FOLDER / "near" / "generate", ROOT / "bench" / "near" / "generate.c"], check=True)
    for number, place in enumerate(hosts.values()):
        place.mkdir(parents=True)
        if application in ("log-grep", "in-file"):
            generated("log", size, number, place / "logs" / "access.log")
        elif application == "ray-tracing":
            for file in range(FILES_OF_RAYS):
                generated("ray", size // FILES_OF_RAYS, file, place / "logs" / f"{file + 1:03}.INFO")
        elif application == "port-scan":
            generated("scan", size, 0, place / "scan" / "annotated.json")
        elif application == "thumbnails":
            (place / "images").mkdir()
            with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
                list(pool.map(lambda image_number: image(place / "images" / f"{image_number:04}.jpg", image_number, small), range(size)))
        else:
            repository(place, size)
    (folder / "made").touch()
    return hosts
