#!/usr/bin/env python3
"""Mutated AWK programs and mutated input data on pmawk: no panic, no death by a signal, no hang, no memory without bound.

    fuzz.py PMAWK [--count N] [--seed S] [--kind program,input] [--oracle GAWK] [--compare] [--keep FOLDER] [--only TEXT]

Seeds are the programs and inputs of the corpus beside this folder. One number decides one case, whatever ran before: the number
that a finding prints, given as --seed with --count 1, repeats it. A case is

    program   a corpus program with tokens or bytes deleted, doubled, swapped or replaced, or spliced with another one; its own input
    input     a corpus program as it is; its input mutated or made up (NUL, invalid UTF-8, long lines, no last newline), read under
              odd separators (RS, FS, FPAT, FIELDWIDTHS, IGNORECASE) and formats (--csv, --tsv, --json-lines)

and runs volatile or, one time in three, on a heap that another run opens again afterwards, and that `perdure check` (the program beside
PMAWK) must find whole.

A finding is: an end by a signal, a panic, a heap that is not whole, and a run over TIME_S seconds; with --oracle only if the oracle ends
in a tenth of that time, for a program that is slow in itself says nothing about us. With --compare also another output or status than the oracle's, where the program has nothing of what two awks may do differently
(NOT_COMPARED); these want reading by a human. Each finding is a folder in --keep: the program, the input, a script `run`.

What runs here is arbitrary text, with system() and files: each run is in an empty folder, with limits on memory, file
size, processes and CPU, and as another user if this one is root. Do not run it where that is not enough.
"""
import argparse, os, random, re, resource, shutil, signal, subprocess, sys, tempfile

TIME_S = 5
MEMORY_BYTES = 4_000_000_000
FILE_BYTES = 64 << 20
UID = 65533  # nobody's: not the usual nobody, whose other processes would count in RLIMIT_NPROC

TOKEN = re.compile(rb'"(?:\\.|[^"\\\n])*"|@/(?:\\.|[^/\\\n])+/|\b\d+\.?\d*(?:[eE][-+]?\d+)?|[A-Za-z_][A-Za-z_0-9]*(?:::[A-Za-z_]\w*)?|\n|[ \t]+|\*\*=|\|&|&&|\|\||\+\+|--|[-+*/%^=!<>]=|\*\*|!~|>>|.', re.S)
WORDS = [w.encode() for w in """BEGIN END BEGINFILE ENDFILE function func if else while for do break continue next nextfile exit return delete in getline print printf switch
case default @include @load @namespace @/x/ length substr index split sub gsub gensub match sprintf sin atan2 int rand srand tolower toupper system close fflush
asort asorti patsplit strtonum mktime strftime systime and or xor compl lshift rshift isarray typeof mkbool bindtextdomain dcgettext dcngettext
NR NF FNR FS OFS RS ORS RT FPAT FIELDWIDTHS IGNORECASE SUBSEP CONVFMT OFMT RSTART RLENGTH ARGC ARGV ARGIND ENVIRON ERRNO FILENAME FUNCTAB SYMTAB PROCINFO LINT TEXTDOMAIN BINMODE
$ $0 $1 $NF $(-1) $1e9 NF=1e6 ( ) [ ] { } ; , : ? ! ~ !~ < > <= >= == != = += -= *= /= %= ^= **= ** ++ -- + - * / % ^ && || | |& >> a b x i A[1] A[1][2] $(1)=
0 1 -1 1e308 1e309 0x10 011 9007199254740993 2147483648 4294967296 18446744073709551616 .5 1e-320 "" "a" "%d" "%s" "%c" "%*d" "%2$s" "%1000d" "%.500f" "\\\\" "\\1" "[" "(" "a{1,300}" "\\B" "nan" "+nan"
/a/ /(a|b)*c/ /[[:alpha:]]/ /x{2,5}/ /^$/ /\\y/ /()/ /[^]/ \\ \n # \0 \xff é @f() pm::commit() pm::rollback() awk::x ns::y""".split()]
NUL_WORDS = [b"\0", b"\xff\xfe", b"\xc3", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\r\n", b"\x1c"]

NOT_COMPARED = re.compile(
    rb"in\b(?! *\")|rand|time|PROCINFO|ENVIRON|SYMTAB|FUNCTAB|ARGV|getline|system|close|fflush|\||>|@load|@include|pm::|asort|LINT|delete|ERRNO|/dev|\bns::|\bnan|\binf|log|sqrt|exp|\^|\*\*|printf? *\(|CONVFMT|OFMT|%|0[0-7]|__|\+\+|--|[-+*/]=", re.I)


def corpus(root):
    """Every case with a program: (name, program, {file name: bytes}, stdin)."""
    cases = []
    for folder, _, names in sorted(os.walk(root)):
        for name in sorted(names):
            if not name.endswith(".case"): continue
            with open(os.path.join(folder, name), "rb") as f: text = f.read()
            program, files, stdin = None, {}, b""
            for part in re.split(rb"^--- ", text, flags=re.M)[1:]:
                head, _, body = part.partition(b"\n")
                words = head.split()
                if words[0] == b"program": program = body
                elif words[0] == b"stdin": stdin = body
                elif words[0] == b"file" and len(words) == 2 and b"/" not in words[1]: files[words[1].decode()] = body
            if program: cases.append((os.path.relpath(os.path.join(folder, name), root)[:-5], program, files, stdin))
    return cases


def mutate_bytes(r, data, times):
    out = bytearray(data)
    for _ in range(times):
        at = r.randrange(len(out) + 1)
        k = r.randrange(7)
        if k == 0 and out: del out[at:at + r.choice([1, 1, 1, 2, 5, 20])]
        elif k == 1: out[at:at] = bytes([r.randrange(256)])
        elif k == 2 and at < len(out): out[at] ^= 1 << r.randrange(8)
        elif k == 3: out[at:at] = r.choice(NUL_WORDS)
        elif k == 4:
            end = min(len(out), at + r.randrange(1, 40))
            out[at:at] = out[at:end] * r.choice([1, 1, 2, 3, 200])
        elif k == 5: out[at:at] = r.choice(b'(){}[];"/\\$@\n #,:?!~<>=+-*%^&|\'`.') .to_bytes(1, "big")
        elif k == 6 and out:
            to = r.randrange(len(out)); end = at + r.randrange(1, 30)
            piece = out[at:end]; del out[at:end]; out[to:to] = piece
    return bytes(out)


def mutate_tokens(r, program, others, times):
    tokens = TOKEN.findall(program)
    for _ in range(times):
        if not tokens: tokens = [r.choice(WORDS)]
        at = r.randrange(len(tokens))
        k = r.randrange(9)
        if k == 0: del tokens[at:at + r.choice([1, 1, 1, 2, 3, 8])]
        elif k == 1: tokens.insert(at, r.choice(WORDS))
        elif k == 2: tokens[at] = r.choice(WORDS)
        elif k == 3: tokens.insert(at, tokens[r.randrange(len(tokens))])
        elif k == 4:
            to = r.randrange(len(tokens)); tokens[at], tokens[to] = tokens[to], tokens[at]
        elif k == 5:
            end = at + r.randrange(1, 12); tokens[at:at] = tokens[at:end]
        elif k == 6:
            donor = TOKEN.findall(r.choice(others)[1]); a = r.randrange(len(donor)); tokens[at:at] = donor[a:a + r.randrange(1, 25)]
        elif k == 7:
            names = [i for i, t in enumerate(tokens) if re.fullmatch(rb"[A-Za-z_]\w*|\d+|\".*\"", t)]
            if names: tokens[r.choice(names)] = tokens[r.choice(names)]
        elif k == 8:
            left, right = r.choice([(b"(", b")"), (b"{", b"}"), (b"[", b"]"), (b"-", b""), (b"!", b""), (b"$", b"")])
            if r.random() < .1: left, right = left * 3000, right * 3000
            tokens[at] = left + tokens[at] + right
    return b"".join(tokens)


def mutate_program(r, case, others):
    program = case[1]
    k = r.random()
    if k < .15:
        donor = r.choice(others)[1]
        program = program[:r.randrange(len(program) + 1)] + donor[r.randrange(len(donor) + 1):]
    elif k < .3: program = program + b"\n" + r.choice(others)[1]
    if k < .2 or k > .3: program = mutate_tokens(r, program, others, r.choice([1, 1, 1, 2, 2, 3, 5, 10]))
    if r.random() < .2: program = mutate_bytes(r, program, r.choice([1, 1, 2, 4]))
    return program


def odd_input(r, own):
    k = r.randrange(10)
    if k < 4 and own: return mutate_bytes(r, own, r.choice([1, 3, 10, 40]))
    if k == 4: return bytes(r.randrange(256) for _ in range(r.randrange(2000)))
    if k == 5: return r.choice([b"a", b"a ", b"ab,", b"\"", b"\xc3\xa9", b"\0", b"1 ", b"[", b"{\"a\":", b"\xff"]) * r.choice([1, 70_000, 300_000])
    if k == 6: return b"".join(r.choice([b"a", b"b", b" ", b"\n", b",", b"\"", b"\t", b"\r", b";", b"1", b"-", b"e", b".", b"\0", b"\xe9", b"\xc3\xa9"]) for _ in range(r.randrange(3000)))
    if k == 7: return b"".join(r.choice([b"{", b"}", b"[", b"]", b":", b",", b"\"a\"", b"1", b"-2.5e3", b"true", b"null", b"\"\\u00e9\"", b"\"\\ud800\"", b"\n", b" ", b"\\"]) for _ in range(r.randrange(200)))
    if k == 8: return b"\n" * r.randrange(5) + (own or b"x y\n") * r.randrange(3) + b"\n\n\n" * r.randrange(3)
    return own


SETTINGS = [("RS", ["", "\\n", "a", "[0-9]+", "^$", "(a|b)*", "^a", "a$", "\\n\\n+", ".", "\\0", "x*", "[", "\\\\y", "é", "\\xff", "\\r?\\n|;", "(^|\\n)--", "()", "a{3}"]),
            ("FS", ["", ",", " ", "\\t", "a", "[ab]+", "^", "$", "x*", "\\\\|", ".", "\\0", "\\xff", "^a", "(", "é", "\\n", "()", "\\\\y"]),
            ("FPAT", ["", "[^,]*", "a*", "([^,]*)|(\"[^\"]+\")", "^a", "$", ".", "\\\\y", "[[:alpha:]]+", "(", "\\xff"]),
            ("FIELDWIDTHS", ["", "1 2 3", "2:3 *", "*", "0", "1000000 1", "1:1 1:1", "-1", "x", "4294967296", "99999999999999999999 1", "1 * 2", " 3 ", ":1"]),
            ("IGNORECASE", ["1", "0", "x", ""]), ("OFS", ["", ",", "\\0"]), ("ORS", ["", "|"]), ("CONVFMT", ["%d", "%.3g", "%s", "%c", "", "%", "%n", "%100d"]),
            ("OFMT", ["%d", "%s", "%c", "%*d", "%%"]), ("SUBSEP", ["", "\\0"]), ("NF", ["3"]), ("NR", ["1e9"]), ("BINMODE", ["3", "rw"])]
FLAGS = ["-b", "-k", "--csv", "--csv=both", "--tsv", "--tsv=both", "--json-lines", "-n", "-S", "-c", "-P", "-r", "-N", "-s", "-L", "-t", "-o-", "-p-", "-d-", "-I", "--dump=tokens,ast,types,code", "-g"]


def case_of(seed, cases, kinds):
    """The case with this number: (kind, corpus name, program, files, stdin, options, operands, persist)."""
    r = random.Random(seed)
    case = r.choice(cases)
    name, program, files, stdin = case
    kind = r.choice(kinds)
    options, files = [], dict(files)
    if kind == "program":
        program = mutate_program(r, case, cases)
        if r.random() < .15: options.append(r.choice(FLAGS))
    else:
        files = {n: odd_input(r, d) for n, d in files.items()}
        own = stdin
        stdin = odd_input(r, own)
        if r.random() < .3: program = r.choice([b"{ print NF, $1, $NF, RT; $3 = \"x\"; print }", b"{ $(NF + 2) = $1; NF -= 1; print; n[$1]++; m[$2][$3] = $0 } END { print length(n), NR }",
            b"{ gsub(/[aeiou]|x*/, \"<&>\"); print length(), toupper($0), substr($0, 2, 3), index($0, \"a\") }", b"{ while ((getline line) > 0) n += length(line); print n } END { print $0, NF }",
            b"{ n = split($0, p, FS, s); for (i = 0; i <= n; i++) print p[i], s[i]; patsplit($0, q, /[^,]+/, t); print q[1], t[0]; print gensub(/(.)(.*)/, \"\\\\2\\\\1\", \"g\") }",
            b"{ if (match($0, /(a*)(.)(b|)/, m)) print m[0], m[1], m[2, \"start\"], RSTART, RLENGTH; printf \"%s|%5s|%-5.2s|%c|%d|%x\\n\", $1, $2, $3, $1, $1, $2 } END { asort(m); print $0 ~ $1 }",
            b"{ walk(J) } function walk(v, k) { if (isarray(v)) { for (k in v) walk(v[k]) } else print typeof(v), v }", b"!seen[$0]++; END { print length(seen), NR, FNR, FILENAME }"])
        for _ in range(r.choice([0, 1, 1, 2, 3])):
            var, values = r.choice(SETTINGS)
            options += ["-v", f"{var}={r.choice(values)}"]
        if r.random() < .4: options.append(r.choice(FLAGS[:13]))
    operands = sorted(files) if files and r.random() < .9 else []
    if r.random() < .05: operands.append(r.choice(["x=1", "RS=", "FS=a", "nofile", ".", "-", "IGNORECASE=1", "FIELDWIDTHS=1 2"]))
    return kind, name, program, files, stdin, options, operands, r.random() < .33


def confine():
    """In the child: a session of its own, limits, and another user if we are root."""
    os.setsid()
    for what, limit in [(resource.RLIMIT_AS, MEMORY_BYTES), (resource.RLIMIT_FSIZE, FILE_BYTES), (resource.RLIMIT_CPU, TIME_S + 1), (resource.RLIMIT_CORE, 0)]:
        resource.setrlimit(what, (limit, limit))
    if os.getuid() == 0:
        resource.setrlimit(resource.RLIMIT_NPROC, (64, 64))
        os.setgid(UID); os.setuid(UID)


def run(argv, folder, stdin, seconds=TIME_S):
    """(status, output, errors) of one run; status "time" if it had to be killed, output cut at 1 MB."""
    env = {"PATH": "/usr/bin:/bin", "LC_ALL": "C.UTF-8", "TZ": "UTC", "HOME": folder, "RUST_BACKTRACE": "0"}
    with open(stdin, "rb") as into, tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        p = subprocess.Popen(argv, cwd=folder, env=env, stdin=into, stdout=out, stderr=err, preexec_fn=confine)
        try: status = p.wait(seconds)
        except subprocess.TimeoutExpired: status = "time"
        try: os.killpg(p.pid, signal.SIGKILL)
        except OSError: pass
        p.wait()
        out.seek(0); err.seek(0)
        return status, out.read(1 << 20), err.read(1 << 16)


def valid(data):
    """Whether this is UTF-8: the C library of an oracle may take six-byte sequences for a character."""
    try: data.decode()
    except UnicodeDecodeError: return False
    return True


def quoted(argv): return " ".join(a if re.fullmatch(r"[\w./=:,-]+", a) else "'" + a.replace("'", "'\\''") + "'" for a in argv)


def one(seed, cases, kinds, pmawk, oracle, compare, keep):
    """Runs the case with this number; the line that describes what is wrong with it, or None."""
    kind, name, program, files, stdin, options, operands, persist = case_of(seed, cases, kinds)
    folder = tempfile.mkdtemp(prefix="fuzz")
    where = tempfile.mkdtemp(prefix="fuzzin")
    os.chmod(where, 0o755)
    try:
        def fresh():
            shutil.rmtree(folder, ignore_errors=True); os.mkdir(folder); os.chmod(folder, 0o777)
            for n, d in [("prog.awk", program)] + sorted(files.items()):
                with open(os.path.join(folder, n), "wb") as f: f.write(d)
        stdin_path = os.path.join(where, "stdin")
        with open(stdin_path, "wb") as f: f.write(stdin)
        tail = options + ["-f", "prog.awk"] + operands
        fresh()
        heap = ["--lazy", "--persist=the.heap"] if persist else []
        argv = [pmawk] + heap + tail
        runs = [run(argv, folder, stdin_path)]
        wrong = None
        if persist and os.path.exists(os.path.join(folder, "the.heap")):
            runs.append(run([pmawk, "--lazy", "--persist=the.heap", "-f", "prog.awk"], folder, stdin_path))
            checked = run([os.path.join(os.path.dirname(pmawk), "perdure"), "check", "the.heap"], folder, "/dev/null")
            if checked[0] != 0: wrong = f"perdure check: {checked[0]} {(checked[1] + checked[2])[:300]!r}"
        for status, out, err in runs:
            text = err.decode(errors="replace")
            asked = re.search(rb"\babort|kill|fork|exec", program)  # the program may end itself by a signal
            if "panicked" in text or status in (101, 134): wrong = f"panic: {status}"
            elif isinstance(status, int) and status < 0 and not asked and -status not in (signal.SIGXFSZ, signal.SIGPIPE): wrong = f"signal {-status}"
            elif status == "time": wrong = "time"
        shared = [o for o in options if not re.match("--(tsv|json|dump|csv=)", o)]  # the rest no oracle knows
        if oracle and (wrong in ("time", "signal 9", "signal 24") or compare and shared == options and not wrong and not NOT_COMPARED.search(program)):
            fresh()
            if not wrong and not all(valid(d) for d in [program, stdin] + list(files.values())): return None
            # The second run on a heap has the program alone.
            second = len(runs) > 1 and runs[0][0] != "time" and runs[0][0] >= 0
            asked = ["-f", "prog.awk"] if wrong and second else shared + tail[len(options):]
            theirs = run([oracle] + asked, folder, stdin_path, TIME_S / 10 if wrong else TIME_S)
            if wrong and (theirs[0] == "time" or isinstance(theirs[0], int) and theirs[0] < 0): wrong = None
            elif not wrong and theirs[0] != "time" and not persist and theirs[:2] != runs[0][:2] and not (theirs[0] in (1, 2) and runs[0][0] in (1, 2)):
                wrong = f"differs: status {runs[0][0]}, theirs {theirs[0]} {theirs[2][:200]!r}"
        if not wrong: return None
        kept = os.path.join(keep, str(seed))
        shutil.rmtree(kept, ignore_errors=True); os.makedirs(kept)
        for n, d in [("prog.awk", program), ("stdin", stdin)] + sorted(files.items()):
            with open(os.path.join(kept, n), "wb") as f: f.write(d)
        with open(os.path.join(kept, "run"), "w") as f: f.write(quoted(argv) + " <stdin\n")
        for i, (status, out, err) in enumerate(runs):
            with open(os.path.join(kept, f"result{i}"), "wb") as f: f.write(b"status %s\n--- stdout\n%s\n--- stderr\n%s\n" % (str(status).encode(), out[:20000], err[:20000]))
        message = next((l for s, o, e in runs for l in e.decode(errors="replace").splitlines() if "panicked" in l or "overflow" in l or "memory allocation" in l), "")
        return f"{seed} {kind} {name}: {wrong} {message} [{quoted(options + operands)}]"
    finally:
        shutil.rmtree(folder, ignore_errors=True); shutil.rmtree(where, ignore_errors=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("pmawk")
    p.add_argument("--count", type=int, default=1000)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--kind", default="program,program,input", help="comma-separated; a kind may be repeated to come more often")
    p.add_argument("--oracle", help="an awk that decides whether a program ends, and with --compare what it prints")
    p.add_argument("--compare", action="store_true")
    p.add_argument("--keep", default="fuzz.out")
    p.add_argument("--only", default="", help="only corpus cases whose name contains this")
    a = p.parse_args()
    cases = [c for c in corpus(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..")) if a.only in c[0]]
    found = 0
    for seed in range(a.seed, a.seed + a.count):
        line = one(seed, cases, a.kind.split(","), os.path.abspath(a.pmawk), a.oracle, a.compare, a.keep)
        if line: found += 1; print(line, flush=True)
    print(f"{a.count} cases from seed {a.seed}: {found} findings")
    sys.exit(1 if found else 0)


if __name__ == "__main__": main()
