"""The input of the benchmark: made once, the same bytes every time, and kept in FOLDER."""

import hashlib
import subprocess

from .harness import FOLDER, ROOT, compiled


def made(program, source, *words):
    """The file that `PROGRAM WORD ...` prints. A change of the program's source makes it anew."""
    digest = hashlib.sha256((ROOT / "bench" / source).read_bytes()).hexdigest()[:8]
    path = FOLDER / f"{'-'.join(map(str, (program, *words)))}.{digest}"
    if not path.exists():
        print(f"  making {path.name}", flush=True)
        for old in FOLDER.glob(path.stem + ".*"):
            old.unlink()
        unfinished = FOLDER / "unfinished"
        with open(unfinished, "wb") as file:
            subprocess.run([compiled(source), *map(str, words)], stdout=file, check=True)
        unfinished.rename(path)
    return path


def words_short(bytes_count):
    """The pm-gawk manual's words."""
    return made("words", "random_words.c", bytes_count)


def generated(kind, count, *first):
    """A kind of generate.c's."""
    return made("generate", "generate.c", kind, count, *first)


def many_files(count):
    """The names of `count` small files of prose."""
    text = generated("prose", 80 * count)
    folder = FOLDER / f"files-{count}{text.suffix}"
    names = [str(folder / f"{number:05}") for number in range(count)]
    if not folder.exists():
        unfinished = FOLDER / "unfinished-files"
        subprocess.run(["rm", "-rf", unfinished], check=True)
        unfinished.mkdir()
        lines = text.read_text().splitlines(keepends=True)
        share = len(lines) / count
        for number in range(count):
            part = lines[int(number * share) : int((number + 1) * share)]
            (unfinished / f"{number:05}").write_text("".join(part))
        unfinished.rename(folder)
    return names
