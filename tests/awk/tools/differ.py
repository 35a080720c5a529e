#!/usr/bin/env python3
"""Random AWK programs on pmawk (volatile, persistent, in two halves) beside gawk; mawk and original-awk where they part.

    differ.py PMAWK [--gawk GAWK] [--language posix|gawk] [--count N] [--seed S] [--keep FOLDER] [--jobs N] [--reduce]

--language gawk adds what gawk has beyond POSIX, and wants gawk 5.3; then mawk and original-awk are not asked.
--reduce also shortens each program that differs, as far as it still does with the same exit statuses, and writes it beside the whole
one (SEED.short.txt): not where only the two halves differ, nor where one does not end.

Programs avoid what POSIX leaves open: order of `for (k in a)`, order of side effects inside one expression, the value of rand().
Each difference is written to FOLDER as a program, its input and what each interpreter said. Seeds are printed.
"""
import argparse, os, random, re, subprocess, sys, tempfile
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
        self.ascii = False
    def pick(self, xs): return self.r.choice([x for x in xs if x.isascii()] if self.ascii else xs)
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
    powers = ["2", "3", "0", "-1", "-7", "0.5", "0.3", "1e3"]
    def words(self): return WORDS
    def target(self): return self.scalar()
    def match(self, d): return self.regex(d)
    def separator(self, d): return self.regex(d)
    def handed(self, value): return value
    def converted(self, letter, value): return value
    def assign(self, to, value): return f"{to} = {value}"
    def step(self, to): return self.pick(["{}++", "{}--", "++{}", "--{}"]).format(to)
    def change(self, to):
        by = self.pick(['2', '3', '0.3', '-7', '1e3'])
        return f"{to} {self.pick(['+=', '-=', '*=', '%=', '/='] + ['^='] * (by in self.powers))} {by}"
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
        if k == 23: return f"({self.atom(d)} ^ {self.pick(self.powers)})"
        if k == 24: return self.match(d) if self.chance(.3) and not self.split else self.field()
        if k == 25: return f"f{r.randrange(2)}({self.handed(self.expr(d-2))}, {self.handed(self.expr(d-2))}, {self.pick(ARRAYS) if not self.fn else self.pick(['T', 'L'] + ARRAYS)})" if not self.fn else e()
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
                if j < len(t) and t[j] != "%": args.append(self.converted(t[j], self.expr(d - 1)))
                i = j
            i += 1
        return f'sprintf("[{f}]"' + "".join(", " + a for a in args) + ")"
    def stmt(self, d):
        r = self.r
        k = r.randrange(34)
        e = lambda n=2: self.expr(n)
        if k < 7: return self.assign(self.lvalue(2), e(3))
        if k < 9: return self.change(self.lvalue(1))
        if k < 11: return self.step(self.lvalue(1))
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
            arr = self.array(); i = self.newloop()  # nothing with a side effect: the order is nobody's
            return f"for ({i} in {arr}) {{ n_{i}++; s_{i} += length({i} \"\") + ({arr}[{i}] \"\" == {e(0)} \"\") }} print n_{i}, s_{i}"
        if k == 22: return f"delete {self.array()}[{self.subs(2)}]" if self.chance(.7) else f"delete {self.array()}"
        if k < 25:
            t = self.lvalue(1)
            if t[0] == '$': t = '$0'
            rep = self.pick(['"<&>"', '"x"', '"\\\\&"', '"\\\\\\\\&"', '""', '"&&"', e(1)])
            return f"print {self.pick(['sub', 'gsub'])}({self.regex(2)}, {rep}, {t}), {t}" if self.chance(.85) or self.split else f"print {self.pick(['sub', 'gsub'])}({self.regex(2)}, {rep}); print"
        if k == 25:
            arr = self.array()
            sep = self.pick(["", ", " + self.pick(SEPARATORS), ", " + self.separator(1)])
            return f"print split({e()}, {arr}{sep}), {arr}[1], {arr}[2]"
        if k == 26: return f"print match({e()}, {self.regex(1)}), RSTART, RLENGTH"
        if self.split: return f"print {e(3)}"
        if k == 27: return self.pick([f"NF = {r.randrange(0, 8)}", self.assign(f"$(NF + {r.randrange(1,3)})", e(1)), self.assign("$0", e(2)), self.assign("$3", e(1)), "NF++", "$1 = $1", "print NF, $0"])
        if k == 28: return self.pick([f"FS = {self.pick(SEPARATORS)}", f"OFS = {self.pick(STRINGS)}", f"RS = {self.pick(RS)}", 'CONVFMT = "%.3g"', 'OFMT = "%.2f"', 'SUBSEP = ":"', 'ORS = "|\\n"', "NR = 10", "FNR = 5"])
        if k == 29:
            return self.pick(["print getline, $0, NF, NR", f"print (getline {self.target()}), NR, FNR", f'print (getline < "f2"), $0, NF, NR', f'print (getline {self.target()} < "f2"), NR', f'print ("echo b c d" | getline), $0, NF', f'print ("cat f2" | getline {self.target()}), NR', 'print close("f2")', 'print close("cat f2")'])
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

def split_program(rng, kind):
    g = kind(rng, True)
    space, begin = prelude(g)
    funcs = space + g.function("f0") + g.function("f1")
    dump = 'for (k in A) { na++; sa += length(k) }; for (k in B) { nb++; sb += length(k B[k]) }; print na+0, sa+0, nb+0, sb+0; na = sa = nb = sb = 0\n print a "|" b "|" c "|" x "|" y, (a < b), (b < c), (x == y), length(A), length(B)'
    h1 = begin + "BEGIN {\n  " + g.stmts(rng.randrange(2, 8)) + "\n" + dump + "\n}\n"
    h2 = "BEGIN {\n  " + dump + "\n" + g.stmts(rng.randrange(2, 8)) + "\n" + dump + "\n}\n"
    return funcs, h1, h2

def text(rng, words):
    seps = rng.choice([[" "], [" ", "  ", "\t"], [","], [":"], ["X"], [" ", ","]])
    ends = rng.choice([["\n"], ["\n", "\n\n"], [";"], ["\n", "\r\n"], ["\n\n\n", "\n"]])
    out = ""
    for _ in range(rng.randrange(0, 9)):
        out += rng.choice(["", "", "", " "]) + rng.choice(seps).join(rng.choice(words) for _ in range(rng.randrange(0, 6))) + rng.choice(["", "", " "]) + rng.choice(ends)
    return out if rng.random() < .8 else out.rstrip("\n")

def whole_program(rng, kind):
    g = kind(rng, False)
    out = "".join(prelude(g)) + g.function("f0") + g.function("f1")
    if rng.random() < .8: out += "BEGIN {\n  " + g.stmts(rng.randrange(1, 5)) + "\n}\n"
    for _ in range(rng.randrange(1, 4)):
        pat = rng.choice(["", "", "NR == 2", "/a/", g.expr(2), "NR == 1, NR == 3", "/b/, /c/", "!/x/", "$1 ~ /^[0-9]/"])
        out += (pat + " " if pat else "") + "{\n  " + g.stmts(rng.randrange(1, 6)) + "\n}\n"
    if rng.random() < .7: out += "END {\n  " + g.stmts(rng.randrange(1, 5)) + "\n  print NR, NF, $0, a, b, c, x, y\n}\n"
    return out, g.words()

ORDERS = ["@ind_str_asc", "@ind_str_desc", "@ind_num_asc", "@ind_num_desc", "@val_str_asc", "@val_num_asc", "@val_type_asc"]
GENSUBS = ["<&>", "<\\\\0>", "\\\\1", "\\\\2-\\\\1", "\\\\\\\\1", "\\\\&", "[\\\\3]", "", "x\\\\"]
MORE_FORMATS = ["%'d", "%2$s %1$s", "%1$s-%1$d", "%5c|", "%-5c|", "%c", "%a", "%i", "%5.3s|", "%-*s|", "%+'d", "%'.2f", "%08.3f", "%.0e", "%#o", "%#.3x", "% 5d|", "%ld", "%hd", "%1$*2$d|", "%05s|", "%-05d|", "%.10d", "%F", "%A", "%.3a"]
MORE_REGEXES = ["\\y", "\\<a", "o\\>", "\\w+", "\\W", "\\s+", "\\S+", "\\Bl", "\\`a", "c\\'", "(a)(b)?", "(.)(.)", "([a-z]+)([0-9]*)", "(a|(b))+", "[[:upper:]]", "a{0}", "(a*)(ab)*", "x*", "(x*)(y*)", "^(.)", "(.)$", "\\x61", "\\.", "a{,2}"]
FPATS = ["[^,]*", "[^ ]+", "([^,]*)|(\\\"[^\\\"]+\\\")", "[a-z]+", "[0-9]", "a*", ".", "..", "x+|[0-9]+"]
WIDTHS = ["1 2 3", "2:3 *", "3", "5 5 *", "1:1 1:1 2", "10 *", "2 0 2"]

TIMES = ["%Y-%m-%d", "%H:%M:%S", "%j %U %w", "%c", "%s", "%a %A %b", "%e|%k|%l", "%%", "%y%C", "%D %T"]
DATES = ["1970 01 01 00 00 00", "2024 02 30 25 61 61", "2000 1 1 0 0 0", "x", "2024 13 -1 0 0 0", "1969 12 31 23 59 58", "2024 1 1 0 0"]

class GawkGen(Gen):
    """The same, with what gawk has beyond POSIX in about a third of what it says. Arrays of arrays are M, N (of nothing else)."""
    def __init__(self, rng, split):
        super().__init__(rng, split)
        # One program in two has IGNORECASE, and then no é: gawk 5.3.2 compares texts with one wrongly (0 > "é").
        self.fold = self.ascii = self.chance(.5)
    # Infinities and NaNs are compared by chance in gawk 5.3.2 ("" < +inf is false, unset < +nan true), and those that are assigned to a
    # field are freed memory there: none is read or computed, and what is stored in a field is finite or text.
    def words(self): return [w for w in WORDS if w not in ("+nan", "-inf") and not (self.ascii and not w.isascii())]
    # gawk multiplies again and again for a whole power, and is off in the last place of (123456789 - .1) ^ 3.
    powers = ["2", "1", "0"]
    # After a getline that reads nothing typeof says "unassigned" of its variable in gawk: h, of which nobody asks.
    def target(self): return "h"
    # gawk takes @/x/ only where a regular expression is due: no operand, no argument of a function.
    def match(self, d): return super().regex(d)
    # gawk counts the six bytes that %c gives beyond Unicode as one character, and %s ends at a NUL: neither is made.
    def converted(self, letter, value): return f"chr({value})" if letter == "c" else value
    # gawk hands a field or an element to a function as a reference to what may be freed before it is read: f0 and f1 get copies.
    def handed(self, value): return f"(h = {value})" if "$" in value or "[" in value else value
    # split() and FS look for the next separator in what is left, as if nothing stood before it: none that asks what does.
    def separator(self, d):
        regex = self.regex(d)
        return regex if not re.search(r"\\[B<y`]", regex) else self.separator(d)
    # In a record without fields gawk's NF keeps the text that it was assigned: it gets numbers.
    def assign(self, to, value): return f"{to} = fin({value})" if to[0] == "$" else super().assign(to, f"length({value}) % 9" if to == "NF" else value)
    def step(self, to): return f"if ({to} - {to} == 0) {super().step(to)}" if to[0] == "$" else super().step(to)
    def change(self, to):
        if to[0] != "$": return super().change(to)
        return f"{to} = fin({to} {self.pick('+-*%/')} {self.pick(['2', '3', '0.3', '(-7)', '1e3'])})"
    def aoa(self): return self.pick(["M", "N"])
    def sub1(self): return self.pick(['"a"', '"b"', "1", "2", '"c"', '"10"', "x", "1.5"])
    def element(self): return f"{self.aoa()}[{self.sub1()}][{self.sub1()}]"
    def lvalue(self, d): return self.element() if self.chance(.15) else super().lvalue(d)
    def regex(self, d):
        k = self.r.random()
        if k < .25: return "/" + self.pick(MORE_REGEXES) + "/"
        if k < .35: return "@/" + self.pick(REGEXES + MORE_REGEXES) + "/"
        regex = super().regex(d)
        # As text: where a variable was unset and is 0 now, gawk 5.3.2 goes on with the empty expression.
        return regex if regex[0] in "/\"" else f'({regex} "")'
    def word(self, d): return "(" + self.expr(d - 2) + ")"
    def small(self): return self.pick(["0", "1", "2", "3", "7", "255", "256", "65535", "4294967296", "9007199254740991", "12.7", '"12"', '"0x1F"', "x", "y"])
    def expr(self, d):
        if d <= 0 or self.chance(.7): return super().expr(d)
        w = lambda: self.word(d)
        k = self.r.randrange(22)
        if k == 0:
            how = self.pick(['"g"', '"G"', "1", "2", "3", '"x1"', '"g"']); rep = self.pick(GENSUBS)
            # Of text: where nothing is replaced in input, gawk gives a string or a strnum, as it has looked at the input before or not.
            return f'gensub({self.regex(d)}, "{rep}", {how}, {w()} "")'
        if k == 1: return f"typeof({self.pick([w(), self.scalar(), self.element(), 'M', 'A', 'zz', '@/x/', '$1' if not self.split else 'x', 'mkbool(' + w() + ')'])})"
        if k == 2: return f"{self.pick(['and', 'or', 'xor'])}({self.small()}, {self.small()}{self.pick(['', ', ' + self.small()])})"
        if k == 3: return f"{self.pick(['lshift', 'rshift'])}({self.pick(['1', '255', '12', '65535', '3.7'])}, {self.pick(['0', '1', '4', '8', '20'])})"
        if k == 4: return f"compl({self.small()})" if self.chance(.3) else f"and(compl({self.small()}), 65535)"
        if k == 5: return "strtonum(" + self.pick(STRINGS + ['" 0x1F"', '"011"', '"0x"', '"-0x11"', '"1e3x"', '"089"', '"0x1p3"', '"+011"', '"0.5"', "011", "0x11", w()]) + ")"
        if k == 6:
            f = self.pick(MORE_FORMATS); n = f.count("%") + f.count("*")
            if "1$*2$" in f: return f'sprintf("[{f}]", {w()}, {self.r.randrange(9)})'
            if "*" in f: return f'sprintf("[{f}]", {self.r.randrange(9)}, {w()})'
            return f'sprintf("[{f}]", {w()}, {w()})' if "$" in f else f'sprintf("[{f}]", {self.converted(f.rstrip("|")[-1], w())})'
        if k == 7: return self.element()
        if k == 8: return f"({self.sub1()} in {self.aoa()}[{self.sub1()}])"
        if k == 9: return f"isarray({self.pick(['M', self.scalar(), 'A', 'N[1]', 'M[1][2]'])})"
        if k == 10: return f"mkbool({w()})"
        if k == 11: return f"({w()} {self.pick(['~', '!~'])} {self.regex(d)})"
        if k == 12 and not self.fn: return f"@fp({self.handed(self.expr(d - 2))}, {self.handed(self.expr(d - 2))}, {self.pick(ARRAYS)})"
        if k == 13: return f"sp::{self.pick(['one', 'two'])}({w()})"
        if k == 14: return self.pick(["sp::v", "sp::w", "sp::v++", "(sp::w = " + w() + ")"])
        if k == 15: return f'SYMTAB["{self.pick(SCALARS)}"]'
        if k == 16: return f"length({self.pick(['M', 'A', 'M[1]', 'N[1]'])})"
        if k == 17: return f"({w()} {self.pick(['<', '<=', '==', '!=', '>', '>='])} {self.pick(['mkbool(1)', self.scalar(), '$2' if not self.split else 'y'])})"
        if k == 18: return f"toupper({w()})"
        if k == 19: return f'substr({w()}, {self.pick(["0", "-1", "1.5", "2", "1e9"])}, {self.pick(["1", "2.5", "-1", "1e9", "0"])})'
        if k == 20: return f'strftime("{self.pick(TIMES)}", {self.pick(["0", "86399", "1e9", "1700000000", "-1"])}, 1)'
        return f'mktime("{self.pick(DATES)}"{self.pick(["", ", 1"])})'
    def show(self, arr):
        i = self.newloop()
        return f'PROCINFO["sorted_in"] = "@ind_str_asc"; for ({i} in {arr}) printf "%s=%s;", {i}, (isarray({arr}[{i}]) ? "array" length({arr}[{i}]) : {arr}[{i}]); print ""; delete PROCINFO["sorted_in"]'
    def stmt(self, d):
        if self.chance(.62): return super().stmt(d)
        r = self.r; k = r.randrange(22); e = lambda n=2: self.expr(n)
        if k <= 1: return f"{self.element()} {self.pick(['=', '+=', '='])} {e(2)}"
        if k == 2: return f"delete {self.aoa()}" + self.pick(["", f"[{self.sub1()}]", f"[{self.sub1()}][{self.sub1()}]"])
        if k == 3 and d > 0:
            labels = [f"case {l}: {self.pick(['', self.stmt(0) + '; '])}{self.pick(['break; ', 'break; ', ''])}" for l in r.sample(['1', '"a"', '/b+/', '"10"', '3', '@/^x/', '"abc"', '-1', '0', '10'], 3)] + ([f"default: {self.stmt(0)}; break"] if self.chance(.6) else [])
            if self.chance(.3): r.shuffle(labels); labels = [l if l.endswith("; ") or l.endswith("break") else l for l in labels]
            return f"switch ({e()}) {{ " + "\n".join(labels) + "\n}"
        if k in (4, 5): return f"n = split({e()}, A, {self.pick([self.separator(1), self.pick(SEPARATORS)])}, B); print n; " + self.show("A") + "; " + self.show("B")
        if k in (6, 7): return f'n = patsplit({e()} "", A, {self.pick([self.regex(1), "/" + self.pick(MORE_REGEXES) + "/"])}{self.pick(["", ", B"])}); print n; ' + self.show("A") + "; " + self.show("B")
        if k in (8, 9):
            return f'delete A; print match({e()}, {self.regex(1)}, A), RSTART, RLENGTH; if ((0 in A)) print A[0], A[0, "start"], A[0, "length"], length(A), ((2, "start") in A), A[1], A[1, "length"]'
        if k == 10:
            # Equal elements come in no order that gawk promises (unset, 0, "" and 00 are equal): what is sorted is distinct, or looks the same.
            sort = self.pick(["asort", "asorti"])
            order = self.pick([o for o in ORDERS if sort == "asort" or o.startswith("@ind")])
            distinct = 'for (k in A) A[k] = length(k) % 2 ? length(A[k]) + 0.5 : A[k] "|" k'
            return f'{distinct}; n = {sort}(A{self.pick(["", ", B", f", B, {chr(34)}{order}{chr(34)}"])}); print n; ' + self.show("A") + "; " + self.show("B")
        if k == 11:
            i = self.newloop()
            return f'PROCINFO["sorted_in"] = "{self.pick(["@ind_str_asc", "@ind_str_desc", "@ind_num_asc"])}"; for ({i} in A) print {i}, A[{i}]; delete PROCINFO["sorted_in"]'
        if k == 12: return self.show(self.pick(["M", "N", "A", "B"])) + f'; if (isarray(M[1])) print length(M[1])'
        # In the second half on a heap IGNORECASE would have its first value again.
        if k == 13 and not self.split: return self.pick(["IGNORECASE = 1", "IGNORECASE = 0", "IGNORECASE = !IGNORECASE"] if self.fold else ['print toupper("é" a)', 'print ("É" > "é")'])
        if k == 14: return f'SYMTAB["{self.pick(SCALARS)}"] = {e()}'
        if k == 15: return f'fp = "{self.pick(["f0", "f1"])}"; print @fp({self.handed(e(1))}, {self.handed(e(1))}, {self.pick(ARRAYS)})' if not self.fn else f"print ({e()})"
        if k == 16: return f'print typeof({self.scalar()}), typeof({self.pick(["$1", "A", "M", "x"]) if not self.split else "y"}), typeof({self.element()})'
        if k == 17: return f"print {e(3)}"
        if self.split: return f"print ({e(3)})"
        if k == 18: return self.pick([f'FPAT = "{self.pick(FPATS)}"', f'FIELDWIDTHS = "{self.pick(WIDTHS)}"', f"FS = {self.pick(SEPARATORS)}", "FS = FS", 'print PROCINFO["FS"]'])
        if k == 19: return self.pick(["print RT, NF", f"RS = {self.pick(RS + [chr(34) + x + chr(34) for x in ['[[:space:]]+', '(a|b)+', 'A', '[,:]', 'x|;', '^a', 'o$']])}", "print ARGIND, FNR", 'print length(RT)'])
        if k == 20: return self.pick(['print ("echo q w" |& getline), $0, NF', 'cmd = "cat"; print "z y" |& cmd; close(cmd, "to"); print (cmd |& getline h), h; close(cmd)', f'print (getline M[1][1] < "f2"), M[1][1]', '$0 = $0; print $1, NF'])
        return f"{self.assign(self.pick(['$2', '$(NF)', '$(NF+2)', 'NF', '$1']), self.pick([e(1), '3', '2']))}; print NF, $0"

SPACE = '@namespace "sp"\nfunction one(p) { v = v p; return length(v) }\nfunction two(p) { w += p; return w + length(awk::a) }\n@namespace "awk"\nfunction fin(v) { return v - v == 0 ? v : v "" }\nfunction chr(v) { return typeof(v) ~ /num|un/ && !(v >= 1 && v <= 1114111) || v == \"\" ? 65 : v }\n'
# A and B are arrays from the start: length(A) makes a scalar of an A that nothing has used in gawk, here it is an array as the rest says.
def prelude(g): return (SPACE, 'BEGIN { fp = "f0"; M[1][2] = "m"; M["a"]["b"] = 2; N[1]["x"] = "n"; delete M[3]; delete A; delete B }\n' ) if isinstance(g, GawkGen) else ("", "")

ENV = {"PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8", "TZ": "UTC"}
def run(argv, folder, seconds=10):
    try:
        p = subprocess.run(argv, cwd=folder, env=ENV, stdin=subprocess.DEVNULL, capture_output=True, timeout=seconds)
        return p.stdout, p.returncode, p.stderr
    except subprocess.TimeoutExpired:
        return b"TIMEOUT", 99, b""

def put(folder, files):
    for name, content in files.items():
        with open(os.path.join(folder, name), "w", newline="") as f: f.write(content)

def case_of(kind, seed):
    """The case with this number: its files ("p" is the program; "p1" and "p2" are its halves, if it has two) and the arguments."""
    rng = random.Random(seed)
    if rng.random() < .3:
        funcs, h1, h2 = split_program(rng, kind)
        return {"p": funcs + h1 + h2, "p1": funcs + h1, "p2": h2 if rng.random() < .5 else funcs + h2}, ["-f", "p"]
    prog, words = whole_program(rng, kind)
    files = {"p": prog, "f1": text(rng, words), "f2": text(rng, words)}
    operands = rng.choice([["f1"], ["f1"], ["f1", "f2"], ["f1", "a=3x", "f2"], ["f1", "FS=,", "f2"], ["f1", "b=10", "f2"]])
    return files, rng.choice([[], [], ["-F,"], ["-Ft"], ["-F", "[:X]"], ["-v", "a=1e2"]]) + ["-f", "p"] + operands

def odd(gawk):
    """Whether gawk fell over its own feet: nothing to compare with."""
    out, _, err = gawk
    if b"as an array" in err or b"is not an array" in err: return True  # gawk 5.2.1: untyped globals as parameters
    if b"\0\0" in out or b"\xff\x01" in out: return True  # infinities as text: bytes of freed memory
    return any(w in err for w in (b"internal error", b"fixtype", b"unexpected parameter type"))  # gawk 5.3.2: assertions of its own

def judge(pmawk, gawk_path, files, argv, seconds=10):
    """What gawk says, and [(way to run it, what pmawk says)] of the ways in which pmawk says something else."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        put(folder, files)
        gawk = run([gawk_path] + argv, folder, seconds)
        if odd(gawk): return gawk, []
        results = [("volatile", run([pmawk] + argv, folder, seconds))]
        heap = [pmawk, "--lazy", "--persist=h"]
        if "p1" not in files:
            results.append(("persistent", run(heap + argv, folder, seconds)))
        # A text that gawk refuses as a whole (`duplicate case`, found while it reads) may have a first half that is right.
        elif (gawk[1], results[0][1][1]) != (1, 1):
            first = run(heap + ["-f", "p1"], folder)
            if first[1] == 0:
                second = run(heap + ["-f", "p2"], folder)
                results.append(("halves", (first[0] + second[0], second[1], first[2] + second[2])))
            else:
                results.append(("half", first))
        bad = [(n, r) for n, r in results if r[:2] != gawk[:2] or b"panicked" in r[2] or r[1] < 0]
        return gawk, [b for b in bad if b[1][1] != 99] if gawk[1] == 99 else bad

def shortened(parts, still):
    """Fewer of these parts, of which none can be left out so that `still` holds of the text they make (Zeller's ddmin)."""
    size = (len(parts) + 1) // 2
    while size:
        at = 0
        while at < len(parts):
            fewer = parts[:at] + parts[at + size:]
            if still("".join(fewer)): parts = fewer
            else: at += size
        size = size // 2
    return "".join(parts)

TOKEN = re.compile(r'"(?:\\.|[^"\\])*"|\w+\s*|\s+|.\s*', re.S)
def reduce(pmawk, gawk_path, files, argv):
    """The files of a case that differs, shorter: input lines, then lines, then words of the program, while the two ends stay what they are."""
    files = {n: c for n, c in files.items() if n not in ("p1", "p2")}
    def ends(files):
        gawk, bad = judge(pmawk, gawk_path, files, argv, 1)  # what is left out may be the end of a loop
        return bad and (gawk[1], bad[0][1][1])
    wanted = ends(files)
    if not wanted or 99 in wanted: return None
    for name, parts in [("f1", str.splitlines), ("f2", str.splitlines), ("p", str.splitlines), ("p", TOKEN.findall), ("p", TOKEN.findall)]:
        pieces = parts(files.get(name, ""), True) if parts is str.splitlines else parts(files[name])
        files[name] = shortened(pieces, lambda t: ends({**files, name: t}) == wanted)
    return files

def shown(files): return "".join(f"--- {n}\n{c}\n" for n, c in files.items() if n not in ("p1", "p2"))

def one(args):
    pmawk, gawk_path, kind, seed, keep, shorten = args
    files, argv = case_of(kind, seed)
    gawk, bad = judge(pmawk, gawk_path, files, argv)
    if not bad: return gawk[1], None
    others = []
    if kind is Gen:
        with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
            put(folder, files)
            others = [(n, run([n] + argv, folder)) for n in ("mawk", "original-awk")]
    report = f"seed {seed} args {argv}\n" + shown(files)
    for n, r in [("gawk", gawk)] + bad + others:
        report += f"=== {n} status {r[1]}\n{r[0].decode(errors='replace')}\n  stderr: {r[2].decode(errors='replace')[:500]}\n"
    put(keep, {f"{seed}.txt": report})
    short = reduce(pmawk, gawk_path, files, argv) if shorten else None
    if short:
        theirs, ours = judge(pmawk, gawk_path, short, argv)
        says = f"=== gawk\n{theirs[0].decode(errors='replace')}\n=== pmawk\n{ours[0][1][0].decode(errors='replace') if ours else 'the same, this time'}\n"
        put(keep, {f"{seed}.short.txt": f"args {argv}\n{shown(short)}{says}"})
    g = gawk[0].split(b"\n"); v = bad[0][1][0].split(b"\n")
    at = next((i for i, (s, t) in enumerate(zip(g, v)) if s != t), min(len(g), len(v)))
    agree = "".join(n[0] for n, r in others if r[:2] == bad[0][1][:2])
    return gawk[1], f"{seed} {bad[0][0]} agree:{agree or '-'} status {gawk[1]}/{bad[0][1][1]} gawk:{g[at:at+1]} pm:{v[at:at+1]} err:{bad[0][1][2][:160]!r} / {gawk[2][:160]!r}"

def main():
    p = argparse.ArgumentParser()
    p.add_argument("pmawk"); p.add_argument("--count", type=int, default=1000); p.add_argument("--seed", type=int, default=1); p.add_argument("--keep", default="differ.out")
    p.add_argument("--gawk", default="gawk"); p.add_argument("--language", choices=["posix", "gawk"], default="posix"); p.add_argument("--jobs", type=int, default=2); p.add_argument("--reduce", action="store_true")
    a = p.parse_args()
    os.makedirs(a.keep, exist_ok=True)
    statuses = {}
    n = 0
    with ThreadPoolExecutor(a.jobs) as pool:
        for status, line in pool.map(one, ((os.path.abspath(a.pmawk), a.gawk, GawkGen if a.language == "gawk" else Gen, s, a.keep, a.reduce) for s in range(a.seed, a.seed + a.count))):
            statuses[status] = statuses.get(status, 0) + 1
            if line: n += 1; print(line, flush=True)
    print(f"{a.count} programs from seed {a.seed}: {n} differences; gawk's statuses {statuses}")

main()
