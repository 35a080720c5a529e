#!/usr/bin/env python3
"""Random arithmetic with --bignum, on pmawk and on gawk: prints every program whose output differs.

    tests/awk/tools/bignum_diff.py PMAWK GAWK [ROUNDS [SEED]]

Each program sets PREC and ROUNDMODE, computes expressions over random integers, floats and texts, and prints the results by
random conversions. Known differences (docs/awk.md) are not generated:
%o %x %u of negative numbers, fractions where an integer is wanted.
"""
import random
import subprocess
import sys

PROGRAMS_PER_ROUND = 40


def literal(r):
    kind = r.randrange(9)
    if kind == 0:
        return str(r.randrange(20))
    if kind == 1:
        return str(r.getrandbits(r.randrange(1, 200)))
    if kind == 2:
        return "%d.%d" % (r.randrange(1000), r.randrange(100000))
    if kind == 3:
        return "%d.%de%d" % (r.randrange(10), r.randrange(100000), r.randrange(-40, 40))
    if kind == 4:
        return '"%d"' % r.getrandbits(r.randrange(1, 100))
    if kind == 5:
        return '"%d.%d"' % (r.randrange(100), r.randrange(100000))
    if kind == 6:
        return "(2^%d + %d)" % (r.randrange(40, 150), r.randrange(-3, 4))
    if kind == 7:
        return hex(r.getrandbits(r.randrange(1, 120)))
    return "%d.0" % r.getrandbits(r.randrange(1, 80))


def expression(r, depth):
    if depth == 0 or r.random() < 0.15:
        return literal(r)
    kind = r.randrange(14)
    a = expression(r, depth - 1)
    if kind < 8:
        b = expression(r, depth - 1)
        op = r.choice("+-*/%+-*/%")
        if op in "/%":
            b = "nonzero(%s)" % b
        return "(%s %s %s)" % (a, op, b)
    if kind == 8:
        return "(nonzero(%s) ^ %d)" % (a, r.randrange(-9, 10))
    if kind == 9:
        return "-%s" % a if a[0] != "-" else "-(%s)" % a
    if kind == 10:
        return "int(%s)" % a
    if kind == 11:
        # Arguments of moderate size.
        return "%s((%s) %% 50)" % (r.choice(["sin", "cos", "exp"]), a)
    if kind == 12:
        return "%s(positive(%s))" % (r.choice(["sqrt", "log"]), a)
    return "atan2(%s, %s)" % (a, expression(r, depth - 1))


def program(r):
    lines = ["function nonzero(x) { x = x + 0; return x == 0 ? 7 : x }",
             "function positive(x) { x = x + 0; return x < 0 ? -x : (x == 0 ? 3 : x) }",
             "BEGIN {"]
    precision = r.choice(["53", "53", "24", "64", "100", "200", "11", str(r.randrange(2, 300)), '"double"', '"quad"'])
    lines.append("PREC = %s; ROUNDMODE = \"%s\";" % (precision, r.choice("NNNNZUDA")))
    for n in range(4):
        lines.append("x%d = %s;" % (n, expression(r, r.randrange(1, 4))))
        form = r.choice(["%d", "%.30g", "%g", "%.40f", "%.3f", "%e", "%.25e", "%a", "%.10a", "%s", "%+.5g", "%20.3f|",
                         "%-30d|", "%i", "%#.12g", "%.0f", "%.17g"])
        lines.append('printf "%s\\n", x%d;' % (form, n))
    lines.append("print x0, x1, x2 \"\", (x0 < x1), (x2 == x3), (x1 >= x2);")
    lines.append("x0 += x1; x1 *= 1.5; x2++; --x3; print x0, x1, x2, x3; a[x0] = 1; for (k in a) print k;")
    lines.append("}")
    return "\n".join(lines)


def run(awk, text):
    try:
        done = subprocess.run([awk, "-M", text], capture_output=True, timeout=20)
    except subprocess.TimeoutExpired:
        return b"timeout"
    return done.stdout


def main():
    pmawk, gawk = sys.argv[1:3]
    rounds = int(sys.argv[3]) if len(sys.argv) > 3 else 10
    seed = int(sys.argv[4]) if len(sys.argv) > 4 else random.randrange(1 << 30)
    print("seed", seed)
    r = random.Random(seed)
    differing = 0
    for _ in range(rounds * PROGRAMS_PER_ROUND):
        text = program(r)
        ours, theirs = run(pmawk, text), run(gawk, text)
        if ours != theirs:
            differing += 1
            print("----", text, sep="\n")
            for a, b in zip(ours.splitlines(), theirs.splitlines()):
                if a != b:
                    print("pmawk:", a.decode(errors="replace")[:300])
                    print("gawk: ", b.decode(errors="replace")[:300])
            if len(ours.splitlines()) != len(theirs.splitlines()):
                print("lines:", len(ours.splitlines()), len(theirs.splitlines()))
    print(rounds * PROGRAMS_PER_ROUND, "programs,", differing, "differ")
    sys.exit(differing > 0)


main()
