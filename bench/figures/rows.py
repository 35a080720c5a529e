"""The rows of `./x bench awk`: what is asked, of which input, in which words.

A row has one program for all peers, or a second one for those without a means that the first one needs; which of them run which
is told in the record. All print one answer, and an awk that prints another ends the benchmark.
"""

import dataclasses
import typing

from . import data
from .harness import ROOT

PROGRAMS = ROOT / "bench" / "awk"
EXTENDED = ("pmawk", "gawk")  # speak the language of gawk
CSV = {"pmawk": ["--csv"], "gawk": ["--csv"], "goawk": ["-i", "csv"]}
SMALL = 10  # how much smaller a rehearsal is


@dataclasses.dataclass
class Row:
    name: str
    about: str
    # A text, or the name of a file in bench/awk/ that ends in .awk.
    program: str
    # Gives the operands, for an input that is so many times smaller.
    operands: typing.Callable[[int], list] = lambda smaller: []
    # For a program that opens its input itself: the assignment that names it.
    assigned: typing.Callable[[int], str] | None = None
    # Options for all.
    options: list = dataclasses.field(default_factory=list)
    # For peers named here, other options.
    own_options: dict = dataclasses.field(default_factory=dict)
    # For peers that are not in EXTENDED or own_options: their program.
    portable: str = ""
    # The `n` of a program that counts by itself.
    n: int = 0
    # How n shrinks in a rehearsal, where work is not proportional to it.
    n_small: int = 0
    in_order: bool = True
    # Peers that cannot, and why.
    unable: dict = dataclasses.field(default_factory=dict)
    limit: int = 20
    # At least so many runs.
    rounds: int = 3
    # A program of bench/limit/ and what it is asked after the file.
    limit_program: str = ""
    limit_words: list = dataclasses.field(default_factory=list)

    def text_for(self, peer):
        """The program that a peer runs."""
        return self.portable if self.portable and peer not in EXTENDED and peer not in self.own_options else self.program

    def words_for(self, peer, smaller):
        """Options, program and operands for a peer."""
        words = list(self.own_options.get(peer, self.options))
        if self.n:
            words += ["-v", f"n={self.count(smaller)}"]
        if self.assigned:
            words += ["-v", self.assigned(smaller)]
        text = self.text_for(peer)
        words += ["-f", str(PROGRAMS / text)] if text.endswith(".awk") else [text]
        return words + [str(operand) for operand in self.operands(smaller)]

    def count(self, smaller):
        return self.n if smaller == 1 else self.n_small or max(1, self.n // smaller)


def generated(kind, count):
    return lambda smaller: [data.generated(kind, count // smaller)]


LOG = generated("log", 1_500_000)
PROSE = generated("prose", 10_000_000)
TSV = generated("tsv", 10_000_000)

ROWS = [
    Row(
        "wordcount-short",
        "200 MB of the pm-gawk manual's random words, one a line",
        '{ n[$1]++ } END { print n["foo"] }',
        lambda smaller: [data.words_short(200_000_000 // smaller)],
        limit=30,
        limit_program="wordcount",
        limit_words=["foo"],
    ),
    Row(
        "wordcount-long",
        "8,000,000 words of 8 to 40 letters, 300,000 different ones",
        "wordcount.awk",
        generated("long", 8_000_000),
        limit_program="wordcount",
    ),
    Row(
        "sdc",
        "the script of the SDC 2022 talk: 10^7 lines, drifting hot set, a million names (lines compared in any order)",
        "sdc.awk",
        generated("keys", 10_000_000),
        in_order=False,
    ),
    Row(
        "sumcol",
        "sum of a column of whole numbers, 10^7 lines",
        '{ s += $4 } END { printf "%.0f\\n", s }',
        TSV,
        options=["-F\\t"],
        limit_program="sumcol",
        limit_words=["4"],
    ),
    Row(
        "sumcol-decimal",
        "sum of a column of decimal fractions, 10^7 lines",
        '{ s += $5 } END { printf "%.2f\\n", s }',
        TSV,
        options=["-F\\t"],
    ),
    Row("filter-regex", "lines of a web server's log that match", '/"(GET|POST) \\/api\\/v[0-9]+\\/[a-z]+\\/[0-9]+\\?[^"]*debug=/', LOG),
    Row("filter-fixed", "lines of a web server's log with a fixed text", "/timeout/", LOG),
    Row("columns", "three columns of a web server's log", "{ print $1, $7, $9 }", LOG),
    Row("prose", "words of running text, 10^7 of them", "prose.awk", PROSE),
    Row("prose-lower", "the same, whatever their case", "prose-lower.awk", PROSE),
    Row(
        "csv",
        "sum of a column and size of another, 2,000,000 lines with quotes",
        '{ sum += $4; remarks += length($3) } END { printf "%.0f %d\\n", sum, remarks }',
        generated("csv", 2_000_000),
        own_options=CSV,
        portable="csv-split.awk",
    ),
    Row("split", "split() of lines and of a part of them", "split.awk", generated("tsv", 2_000_000)),
    Row("gsub", "replacements in running text", "gsub.awk", PROSE),
    Row("sub-match", "sub() and match() on a web server's log", "sub-match.awk", LOG),
    Row("captures", "parts of a match of a web server's log", "captures.awk", generated("log", 500_000), portable="captures-portable.awk"),
    Row("index", "every place of a fixed text", "index.awk", PROSE),
    Row("substr", "tolower() of lines, and each letter by substr()", "substr.awk", generated("prose", 1_000_000)),
    Row("printf", "2,000,000 lines of five conversions", "printf.awk", n=2_000_000),
    Row("concat", "3,000 strings, each grown a thousand times", "concat.awk", n=3_000),
    Row("sieve", "primes below 1,000,000", "sieve.awk", n=1_000_000),
    Row("mandelbrot", "a plane of 500 by 500 points", "mandelbrot.awk", n=500, n_small=160),
    Row("nbody", "100,000 steps of five bodies", "nbody.awk", n=100_000, unable={"busybox": "has no sqrt"}),
    Row("fib", "fib(32), recursively", "fib.awk", n=32, n_small=27),
    Row(
        "forin-sort", "counts in the order of 260,000 keys", "forin-sort.awk", generated("long", 1_200_000), portable="forin-sort-pipe.awk"
    ),
    Row("getline", "lines of a file read by the program", "getline.awk", assigned=lambda smaller: f"file={LOG(smaller)[0]}"),
    Row("many-files", "5,000 files of half a kilobyte", "many-files.awk", lambda smaller: data.many_files(5_000 // smaller)),
    Row("startup", "start and end of a process", "BEGIN { }", rounds=100, limit=5),
]
