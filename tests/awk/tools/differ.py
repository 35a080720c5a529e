#!/usr/bin/env python3
"""Random AWK programs on pmawk (volatile, persistent, in two halves) beside gawk; mawk and original-awk where they part.

    differ.py PMAWK [--count N] [--seed S] [--keep FOLDER]

Programs avoid what POSIX leaves open: order of `for (k in a)`, order of side effects inside one expression, the value of rand().
Each difference is written to FOLDER as a program, its input and what each interpreter said. Seeds are printed.
"""
import argparse, os, random, subprocess, sys, tempfile
from concurrent.futures import ThreadPoolExecutor

SCALARS = ["a", "b", "c", "x", "y"]
ARRAYS = ["A", "B"]
NUMS = ["0", "1", "2", "3", "-1", "10", "0.5", "1e3", "100", "3.0", "1e6", "123456789", "0.1", "1e-3", ".5", "2147483648", "1e20"]
STRINGS = ['""', '"a"', '"abc"', '"10"', '" 3 "', '"3x"', '"0x1A"', '"hello world"', '"a.b"', '"x=y"', '"1e2"', '"+5"', '"-0"', '"."',
           '"aXbXc"', '"\\t"', '"é"', '"aéb"', '"A B  C"', '"nan"', '"inf"', '"0"', '"00"', '"a\\nb"', '"/"', '"&"', '"\\\\&"', '"100"', '"b,c,,d"']
REGEXES = ["a", "b*", "^a", "c$", "[a-c]+", "[^a-z]", "[[:alpha:]]+", "[[:digit:]]", "a|b", "(ab)+", "a.c", "x{2}", "[0-9]{1,3}", "a?", "^$", "(a|ab)(c|bcd)*",
           "[]a]", "[^]a]", "\\.", "\\/", "é", "[é]", ".", "l+o", "[[:space:]]+", "b{0,1}c", "(^a|b)", "o$", "[A-Z]", "\\t", "a{2,}", "()", "(b|)c", "[a\\]]", "[.]", "[-a]"]
FORMATS = ["%d", "%i", "%5d", "%-5d|", "%05d", "%+d", "% d", "%x", "%X", "%#x", "%o", "%#o", "%u", "%c", "%s", "%10s|", "%-10s|", "%.2s", "%5.1s|", "%f", "%.2f", "%10.3f",
           "%e", "%.3e", "%g", "%G", "%.10g", "%E", "%%", "%5%", "%.0f", "%#g", "%+.3g", "%.3d", "%5.3d|", "%-8.3e|", "%08.2f", "%c%c", "%s %s", "%d-%s", "%*d", "%.*f", "%-*d|"]
SEPARATORS = ['" "', '","', '"\\t"', '":"', '"[,:]"', '"a"', '"|"', '"."', '"X+"', '""', '"  "', '"\\\\|"', '"^a"', '"[ ]"']
RS = ['"\\n"', '""', '"a"', '";"', '"[0-9]"', '"\\n\\n"', '"b+"', '"\\r?\\n"']
WORDS = ["a", "abc", "10", "3.0", "x", "hello", "0x1A", "1e2", "+5", "-3", "aXbXc", "é", "b,c", "0", "", "nan", "+nan", "inf", "-inf", ".", "1.", "a|b", "abab", "2:3", "007", "1e", "0.1"]

class Gen:
    def __init__(self, rng, split):
        self.r, self.split, self.loops, self.fn = rng, split, 0, None
        self.side = False
    def pick(self, xs): return self.r.choice(xs)
    def chance(self, p): return self.r.random() < p
    def scalar(self):
        return self.pick(["p", "q"]) if self.fn and self.chance(.5) else self.pick(SCALARS)
    def array(self):
        return "L" if self.fn and self.chance(.3) else ("T" if self.fn and self.chance(.3) else self.pick(ARRAYS))
    def field(self):
        if self.split: return self.scalar()
        return self.pick(["$0", "$1", "$2", "$3", "$NF", "$(1+1)", "$5", "$7"])
    def subs(self, d):
        s = self.expr(d - 2)
        return s + ", " + self.expr(d - 2) if self.chance(.12) else s
    def lvalue(self, d):
        k = self.r.random()
        if k < .5: return self.scalar()
        if k < .72: return f"{self.array()}[{self.subs(d)}]"
        return self.field()
    def regex(self, d):
        if self.chance(.8): return "/" + self.pick(REGEXES) + "/"
        return self.pick(['"' + self.pick(REGEXES).replace("\\", "\\\\") + '"', self.scalar()]) if self.chance(.5) else '"' + self.pick(["a", "b+", "[a-c]", "^x", "o$"]) + '"'
    def expr(self, d):
        r = self.r
        if d <= 0:
            k = r.random()
            if k < .25: return self.pick(NUMS)
            if k < .5: return self.pick(STRINGS)
            if k < .75: return self.scalar()
            if k < .8: return "NF" if not self.split else "x"
            if k < .83: return "NR" if not self.split else "y"
            return self.field()
        k = r.randrange(30)
        e = lambda: self.expr(d - 1)
        if k <= 2: return f"({e()} {self.pick(['+', '-', '*'])} {e()})" if self.chance(.8) else f"({e()} {self.pick(['/', '%'])} {self.pick(['2', '3', '0.3', '-7', '1e3'])})"
        if k == 3: return f"{e()} {self.pick(['+', '-', '*'])} {e()}"
        if k == 4: return f"({e()} {self.pick(['<', '<=', '==', '!=', '>', '>='])} {e()})"
        if k == 5: return f"({e()} {self.pick(['<', '<=', '==', '!=', '>', '>='])} {e()})"
        if k == 6: return f"({e()} {self.pick(['~', '!~'])} {self.regex(d)})"
        if k == 7: return f"({e()} {e()})"
        if k == 8: return f"({e()} \" \" {e()})"
        if k == 9: return f"({e()} && {e()})"
        if k == 10: return f"({e()} || {e()})"
        if k == 11: return f"({e()} ? {e()} : {e()})"
        if k == 12: return "!" + self.atom(d)
        if k == 13: return self.pick(["-", "+"]) + self.atom(d)
        if k == 14: return f"({self.scalar()} in {self.array()})" if self.chance(.5) else f"(({self.expr(d-2)}) in {self.array()})"
        if k == 15: return f"length({e()})" if self.fn or self.chance(.8) else f"length({self.pick(ARRAYS)})"
        if k == 16: return f"substr({e()}, {e()})"
        if k == 17: return f"substr({e()}, {e()}, {e()})"
        if k == 18: return f"index({e()}, {e()} \"\")"
        if k == 19: return f"{self.pick(['tolower', 'toupper'])}({e()})"
        if k == 20: return f"int({e()})"
        if k == 21: return self.sprintf(d)
        if k == 22: return f"{self.array()}[{self.subs(d)}]"
        if k == 23: return f"({self.atom(d)} ^ {self.pick(['2', '3', '0', '-1', '0.5'])})"
        if k == 24: return self.regex(d) if self.chance(.3) and not self.split else self.field()
        if k == 25: return f"f{r.randrange(2)}({self.expr(d-2)}, {self.expr(d-2)}, {self.pick(ARRAYS) if not self.fn else self.pick(['T', 'L'] + ARRAYS)})" if not self.fn else e()
        return self.expr(0)
    def atom(self, d): return "(" + self.expr(d - 1) + ")" if self.chance(.5) else self.expr(0).lstrip("-+") or "1"
    def sprintf(self, d):
        f = self.pick(FORMATS) + (self.pick(FORMATS) if self.chance(.3) else "")
        n = f.replace("%%", "").count("%") + f.count("*")
        args = []
        stars = []
        # widths are small numbers
        i = 0
        t = f.replace("%%", "")
        while i < len(t):
            if t[i] == "%":
                j = i + 1
                while j < len(t) and t[j] in "-+ #0123456789.*":
                    if t[j] == "*": args.append(str(self.r.randrange(0, 12)))
                    j += 1
                if j < len(t) and t[j] != "%": args.append(self.expr(d - 1))
                i = j
            i += 1
        return f'sprintf("[{f}]"' + "".join(", " + a for a in args) + ")"
    def stmt(self, d):
        r = self.r
        k = r.randrange(34)
        e = lambda n=2: self.expr(n)
        if k < 7: return f"{self.lvalue(2)} = {e(3)}"
        if k < 9: return f"{self.lvalue(1)} {self.pick(['+=', '-=', '*=', '%=', '/=', '^='])} {self.pick(['2', '3', '0.3', '-7', '1e3'])}"
        if k < 11: return self.pick(["{}++", "{}--", "++{}", "--{}"]).format(self.lvalue(1))
        if k < 15: return "print " + ", ".join("(" + e() + ")" for _ in range(r.randrange(1, 4)))
        if k == 15:
            s = self.sprintf(2)
            return "printf(" + s[len("sprintf("):].replace(']"', ']\\n"', 1)
        if k < 18 and d > 0: return f"if ({e()}) {self.block(d)}" + (f" else {self.block(d)}" if self.chance(.5) else "")
        if k == 18 and d > 0:
            i = self.newloop()
            return f"for ({i} = 0; {i} < {r.randrange(1,5)}; {i}++) {self.block(d)}"
        if k == 19 and d > 0:
            i = self.newloop()
            return f"{i} = 0; while ({i}++ < {r.randrange(1,5)}) {self.block(d)}"
        if k == 20 and d > 0:
            i = self.newloop()
            return f"{i} = 0; do {self.block(d)} while (++{i} < {r.randrange(1,4)})"
        if k == 21:
            arr = self.array(); i = self.newloop()
            return f"for ({i} in {arr}) {{ n_{i}++; s_{i} += length({i} \"\") + ({arr}[{i}] \"\" == {e(1)} \"\") }} print n_{i}, s_{i}"
        if k == 22: return f"delete {self.array()}[{self.subs(2)}]" if self.chance(.7) else f"delete {self.array()}"
        if k < 25:
            t = self.lvalue(1)
            if t[0] == '$': t = '$0'
            rep = self.pick(['"<&>"', '"x"', '"\\\\&"', '"\\\\\\\\&"', '""', '"&&"', e(1)])
            return f"print {self.pick(['sub', 'gsub'])}({self.regex(2)}, {rep}, {t}), {t}" if self.chance(.85) or self.split else f"print {self.pick(['sub', 'gsub'])}({self.regex(2)}, {rep}); print"
        if k == 25:
            arr = self.array()
            sep = self.pick(["", ", " + self.pick(SEPARATORS), ", " + self.regex(1)])
            return f"print split({e()}, {arr}{sep}), {arr}[1], {arr}[2]"
        if k == 26: return f"print match({e()}, {self.regex(1)}), RSTART, RLENGTH"
        if self.split: return f"print {e(3)}"
        if k == 27: return self.pick([f"NF = {r.randrange(0, 8)}", f"$(NF + {r.randrange(1,3)}) = {e(1)}", "$0 = " + e(2), "$3 = " + e(1), "NF++", "$1 = $1", "print NF, $0"])
        if k == 28: return self.pick([f"FS = {self.pick(SEPARATORS)}", f"OFS = {self.pick(STRINGS)}", f"RS = {self.pick(RS)}", 'CONVFMT = "%.3g"', 'OFMT = "%.2f"', 'SUBSEP = ":"', 'ORS = "|\\n"', "NR = 10", "FNR = 5"])
        if k == 29:
            return self.pick(["print getline, $0, NF, NR", f"print (getline {self.scalar()}), NR, FNR", f'print (getline < "f2"), $0, NF, NR', f'print (getline {self.scalar()} < "f2"), NR', f'print ("echo b c d" | getline), $0, NF', f'print ("cat f2" | getline {self.scalar()}), NR', 'print close("f2")', 'print close("cat f2")'])
        if k == 30 and d < 2 : return self.pick(["next", "exit", f"exit {r.randrange(0,4)}", "nextfile"]) if not self.fn else f"return {e()}"
        if k == 31 and self.loops_open: return self.pick(["break", "continue"])
        return f"print ({e(3)})"
    loops_open = 0
    def newloop(self):
        self.loops += 1
        return f"i{self.loops}"
    def block(self, d):
        n = self.r.randrange(1, 4)
        return "{ " + "; ".join(self.stmt(d - 1) for _ in range(n)) + " }"
    def function(self, name):
        self.fn = name
        body = "; ".join(self.stmt(1) for _ in range(self.r.randrange(1, 4)))
        ret = f"; return {self.expr(2)}" if self.chance(.8) else ""
        self.fn = None
        return f"function {name}(p, q, T, L) {{ {body}{ret} }}\n"
    def stmts(self, n, d=2): return "\n  ".join(self.stmt(d) for _ in range(n))

def split_program(rng):
    g = Gen(rng, True)
    funcs = g.function("f0") + g.function("f1")
    dump = 'for (k in A) { na++; sa += length(k) }; for (k in B) { nb++; sb += length(k B[k]) }; print na+0, sa+0, nb+0, sb+0; na = sa = nb = sb = 0\n print a "|" b "|" c "|" x "|" y, (a < b), (b < c), (x == y), length(A), length(B)'
    h1 = "BEGIN {\n  " + g.stmts(rng.randrange(2, 8)) + "\n" + dump + "\n}\n"
    h2 = "BEGIN {\n  " + dump + "\n" + g.stmts(rng.randrange(2, 8)) + "\n" + dump + "\n}\n"
    return funcs, h1, h2

def text(rng):
    seps = rng.choice([[" "], [" ", "  ", "\t"], [","], [":"], ["X"], [" ", ","]])
    ends = rng.choice([["\n"], ["\n", "\n\n"], [";"], ["\n", "\r\n"], ["\n\n\n", "\n"]])
    out = ""
    for _ in range(rng.randrange(0, 9)):
        out += rng.choice(["", "", "", " "]) + rng.choice(seps).join(rng.choice(WORDS) for _ in range(rng.randrange(0, 6))) + rng.choice(["", "", " "]) + rng.choice(ends)
    return out if rng.random() < .8 else out.rstrip("\n")

def whole_program(rng):
    g = Gen(rng, False)
    out = g.function("f0") + g.function("f1")
    if rng.random() < .8: out += "BEGIN {\n  " + g.stmts(rng.randrange(1, 5)) + "\n}\n"
    for _ in range(rng.randrange(1, 4)):
        pat = rng.choice(["", "", "NR == 2", "/a/", g.expr(2), "NR == 1, NR == 3", "/b/, /c/", "!/x/", "$1 ~ /^[0-9]/"])
        out += (pat + " " if pat else "") + "{\n  " + g.stmts(rng.randrange(1, 6)) + "\n}\n"
    if rng.random() < .7: out += "END {\n  " + g.stmts(rng.randrange(1, 5)) + "\n  print NR, NF, $0, a, b, c, x, y\n}\n"
    return out

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
def run(argv, folder, data):
    try:
        p = subprocess.run(argv, cwd=folder, env=ENV, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
        return p.stdout, p.returncode, p.stderr
    except subprocess.TimeoutExpired:
        return b"TIMEOUT", 99, b""

def one(args):
    pmawk, seed, keep = args
    rng = random.Random(seed)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        def put(name, t):
            with open(os.path.join(folder, name), "w", newline="") as f: f.write(t)
        results = []
        files = {}
        if rng.random() < .3:
            funcs, h1, h2 = split_program(rng)
            put("p1", funcs + h1); put("p2", h2 if rng.random() < .5 else funcs + h2); put("p", funcs + h1 + h2)
            gawk = run(["gawk", "-f", "p"], folder, "")
            vol = run([pmawk, "-f", "p"], folder, "")
            results.append(("volatile", vol))
            one_ = run([pmawk, "--lazy", "--persist=h", "-f", "p1"], folder, "")
            if one_[1] == 0:
                two = run([pmawk, "--lazy", "--persist=h", "-f", "p2"], folder, "")
                results.append(("halves", (one_[0] + two[0], two[1], one_[2] + two[2])))
            else:
                results.append(("half", one_))
            prog, argv = funcs + h1 + h2, []
        else:
            prog = whole_program(rng)
            put("p", prog); put("f1", text(rng)); put("f2", text(rng))
            argv = rng.choice([["f1"], ["f1", "f2"], ["f1", "a=3x", "f2"], ["f1", "FS=,", "f2"], ["f1", "b=10", "f2"]])
            if rng.random() < .2: argv = ["f1"]
            pre = rng.choice([[], [], ["-F,"], ["-Ft"], ["-F", "[:X]"], ["-v", "a=1e2"]])
            gawk = run(["gawk"] + pre + ["-f", "p"] + argv, folder, "")
            results.append(("volatile", run([pmawk] + pre + ["-f", "p"] + argv, folder, "")))
            results.append(("persistent", run([pmawk, "--lazy", "--persist=h"] + pre + ["-f", "p"] + argv, folder, "")))
            argv = pre + ["-f", "p"] + argv
        if b"as an array" in gawk[2] or b"is not an array" in gawk[2] or b"\0\0" in gawk[0] or b"\xff\x01" in gawk[0]: return gawk[1], None  # gawk 5.2.1: untyped globals as parameters, inf to text
        bad = [(n, r) for n, r in results if (r[0], r[1]) != (gawk[0], gawk[1]) or b"panicked" in r[2] or r[1] < 0]
        if gawk[1] == 99 : bad = [b for b in bad if b[1][1] != 99]
        if not bad: return gawk[1], None
        others = [(n, run([n] + (argv or ["-f", "p"]), folder, "")) for n in ("mawk", "original-awk")]
        report = f"seed {seed} args {argv}\n--- program\n{prog}\n"
        for f in ("f1", "f2"):
            if os.path.exists(os.path.join(folder, f)): report += f"--- {f}\n" + open(os.path.join(folder, f), newline="").read() + "\n"
        for n, r in [("gawk", gawk)] + bad + others:
            report += f"=== {n} status {r[1]}\n{r[0].decode(errors='replace')}\n  stderr: {r[2].decode(errors='replace')[:500]}\n"
        g = gawk[0].split(b"\n"); v = bad[0][1][0].split(b"\n")
        at = next((i for i, (s, t) in enumerate(zip(g, v)) if s != t), min(len(g), len(v)))
        agree = "".join(n[0] for n, r in others if (r[0], r[1]) == (bad[0][1][0], bad[0][1][1]))
        line = f"{seed} {bad[0][0]} agree:{agree or '-'} status {gawk[1]}/{bad[0][1][1]} gawk:{g[at:at+1]} pm:{v[at:at+1]} err:{bad[0][1][2][:160]!r} / {gawk[2][:160]!r}"
        with open(os.path.join(keep, f"{seed}.txt"), "w") as f: f.write(report)
        return gawk[1], line

def main():
    p = argparse.ArgumentParser()
    p.add_argument("pmawk"); p.add_argument("--count", type=int, default=1000); p.add_argument("--seed", type=int, default=1); p.add_argument("--keep", default="differ.out")
    a = p.parse_args()
    os.makedirs(a.keep, exist_ok=True)
    statuses = {}
    n = 0
    with ThreadPoolExecutor(2) as pool:
        for status, line in pool.map(one, ((os.path.abspath(a.pmawk), s, a.keep) for s in range(a.seed, a.seed + a.count))):
            statuses[status] = statuses.get(status, 0) + 1
            if line: n += 1; print(line, flush=True)
    print(f"{a.count} programs from seed {a.seed}: {n} differences; gawk's statuses {statuses}")

main()
