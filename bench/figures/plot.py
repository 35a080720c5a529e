"""Pictures of the figures, as SVG: text only, without a library, for light backgrounds."""

import math
import statistics
from html import escape

LEFT, RIGHT, TOP, BOTTOM = 140, 70, 92, 44
WIDTH = 960
STEP = 24
WON, LOST, INK, FAINT = "#1f6fb2", "#d1602c", "#222222", "#dddddd"
# Colour and shape of each peer, so that they can be told apart without colours too.
MARKS = {
    "volatile": ("#222222", "bar"),
    "perdure memory": (WON, "diamond"),
    "perdure lines": (WON, "square"),
    "perdure pages": (WON, "triangle"),
    "PMDK memory": (LOST, "diamond"),
    "PMDK disk": (LOST, "square"),
    "msync": ("#777777", "cross"),
    "gdbm": ("#a0792a", "triangle"),
    "LMDB": ("#3b8f3e", "circle"),
    "SQLite": ("#8a5fb5", "circle"),
    "mawk": ("#3b8f3e", "diamond"),
    "gawk": ("#8a5fb5", "circle"),
    "goawk": ("#0f9fb0", "square"),
    "original-awk": ("#a0792a", "triangle"),
    "busybox": ("#777777", "cross"),
}


def speeds(rows, own):
    """Rows of name and seconds by awk: how many times as fast as the best other each of them is. A bar is `own`, marks are the
    others; an awk that was not waited for is left out."""
    told, gains = [], []
    for name, walls in rows:
        best = min(wall for awk, wall in walls.items() if awk != own)
        gains.append(best / walls[own])
        told.append((name, gains[-1], {awk: best / wall for awk, wall in walls.items() if awk != own and math.isfinite(wall)}))
    mean = statistics.geometric_mean(gains)
    low = min(1 / 32, *gains)
    high = max(4, 1.3 * max(gains))
    low, high = 2.0 ** math.floor(math.log2(low)), high
    height = TOP + STEP * (len(told) + 1) + 10 + BOTTOM

    def across(ratio):
        share = math.log(min(max(ratio, low), high) / low) / math.log(high / low)
        return LEFT + share * (WIDTH - LEFT - RIGHT)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{LEFT}" y="26" font-size="17" font-weight="bold">{escape(own)} and the fastest other awk on each row</text>',
        f'<text x="{LEFT}" y="46" fill="#555555">times as fast as the best other awk (right is faster; logarithmic; no mark: not waited for, or cannot)</text>',
    ]
    out += legend(own, sorted({awk for _, _, others in told for awk in others}, key=list(MARKS).index))
    foot = height - BOTTOM
    ratio = low
    while ratio <= high:
        x, strong = across(ratio), ratio == 1
        out.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{foot}" stroke="{INK if strong else FAINT}" stroke-width="{1.5 if strong else 1}"/>'
        )
        label = f"{ratio:g}×" if ratio >= 1 else f"1/{1 / ratio:g}"
        out.append(f'<text x="{x:.1f}" y="{foot + 18}" text-anchor="middle" fill="#555555">{label}</text>')
        ratio *= 2
    for index, (name, gain, others) in enumerate([*told, ("geometric mean", mean, {})]):
        last = index == len(told)
        middle = TOP + STEP * (index + 0.5) + (10 if last else 0)
        start, end = sorted((across(1), across(gain)))
        weight = ' font-weight="bold"' if last else ""
        out.append(f'<text x="{LEFT - 10}" y="{middle + 4.5:.1f}" text-anchor="end"{weight}>{escape(name)}</text>')
        out.append(
            f'<rect x="{start:.1f}" y="{middle - 7:.1f}" width="{max(end - start, 1):.1f}" height="14" fill="{WON if gain > 1 else LOST}" rx="1.5"/>'
        )
        for awk, speed in others.items():
            out.append(mark(awk, across(speed), middle))
        # Beside the bar, on the side to which it grows; a mark may be there already, where it grows to the left.
        if gain > 1:
            out.append(f'<text x="{end + 6:.1f}" y="{middle + 4.5:.1f}"{weight}>{gain:.2f}×</text>')
        else:
            out.append(f'<text x="{across(1) + 9:.1f}" y="{middle + 4.5:.1f}" fill="{LOST}"{weight}>{gain:.2f}×</text>')
    out.append("</svg>")
    return "\n".join(out) + "\n"


def legend(own, others):
    x, y, out = LEFT, 70, []
    out.append(
        f'<rect x="{x}" y="{y - 7}" width="22" height="14" fill="{WON}" rx="1.5"/><rect x="{x + 24}" y="{y - 7}" width="22" height="14" fill="{LOST}" rx="1.5"/>'
    )
    out.append(f'<text x="{x + 52}" y="{y + 4.5}">{escape(own)}, ahead or behind</text>')
    x += 235
    for awk in others:
        out.append(mark(awk, x, y))
        out.append(f'<text x="{x + 11}" y="{y + 4.5}">{escape(awk)}</text>')
        x += 40 + 8 * len(awk)
    return out


def rates(title, below, rows):
    """Rows of name and rate by engine, as marks on a logarithmic axis; rows that begin with the same word belong together."""
    names = sorted({name for _, of in rows for name in of}, key=list(MARKS).index)
    values = [value for _, of in rows for value in of.values()]
    low, high = 10.0 ** math.floor(math.log10(min(values))), 1.3 * max(values)
    left, top, height = 70, TOP + 24, TOP + 24 + STEP * len(rows) + BOTTOM

    def across(value):
        return left + math.log(value / low) / math.log(high / low) * (WIDTH - left - 30)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="{left}" y="26" font-size="17" font-weight="bold">{escape(title)}</text>',
        f'<text x="{left}" y="46" fill="#555555">{escape(below)}</text>',
    ]
    for index, name in enumerate(names):
        x, y = left + 8 + 160 * (index % 5), 68 + 22 * (index // 5)
        out.append(mark(name, x, y))
        out.append(f'<text x="{x + 11}" y="{y + 4.5}">{escape(name)}</text>')
    foot, tick = height - BOTTOM, low
    while tick <= high:
        x = across(tick)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{foot}" stroke="{FAINT}"/>')
        out.append(f'<text x="{x:.1f}" y="{foot + 18}" text-anchor="middle" fill="#555555">{tick:,.0f}</text>')
        tick *= 10
    for index, (label, of) in enumerate(rows):
        y = top + STEP * (index + 0.5)
        if index and label.split(",")[0] != rows[index - 1][0].split(",")[0]:
            line = y - STEP / 2
            out.append(f'<line x1="{left - 60}" x2="{WIDTH - 30}" y1="{line:.1f}" y2="{line:.1f}" stroke="{FAINT}"/>')
        out.append(f'<text x="{left - 10}" y="{y + 4.5:.1f}" text-anchor="end">{escape(label)}</text>')
        # Ours last: where marks meet, they are on top.
        for name in sorted(of, key=lambda name: (name.startswith("perdure"), name)):
            out.append(mark(name, across(of[name]), y))
    out.append("</svg>")
    return "\n".join(out) + "\n"


def mark(name, x, y):
    colour, shape = MARKS[name]
    paint = f'fill="{colour}" stroke="#ffffff" stroke-width="1"'
    points = {
        "diamond": [(0, -6.5), (6.5, 0), (0, 6.5), (-6.5, 0)],
        "square": [(-4.5, -4.5), (4.5, -4.5), (4.5, 4.5), (-4.5, 4.5)],
        "triangle": [(0, -6), (5.5, 4.5), (-5.5, 4.5)],
    }
    if shape == "circle":
        return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" {paint}/>'
    if shape == "bar":
        return f'<path d="M{x:.1f} {y - 8:.1f}v16" stroke="{colour}" stroke-width="3" fill="none"/>'
    if shape == "cross":
        return f'<path d="M{x - 4:.1f} {y - 4:.1f}l8 8m0 -8l-8 8" stroke="{colour}" stroke-width="2.2" fill="none"/>'
    return f'<polygon points="{" ".join(f"{x + dx:.1f},{y + dy:.1f}" for dx, dy in points[shape])}" {paint}/>'


# Ours last, in our colour; the others from far to near.
BARS = ("#777777", "#3b8f3e", "#a0792a", WON)


def bars(title, below, groups, columns):
    """Groups of a label and seconds by column, as bars from the left on a logarithmic axis; a column that a group does not have is left out."""
    values = [value for _, of in groups for value in of.values()]
    low, high = 10.0 ** math.floor(math.log10(min(values))), 1.5 * max(values)
    # Letters of 13 px are 7.2 px wide at most, as a mean.
    left = 30 + int(7.2 * max(len(label) for label, _ in groups))
    top, thick, apart = TOP + 6, 14, 14
    height = top + sum(thick * len(of) + apart for _, of in groups) + BOTTOM

    def across(value):
        return left + math.log(value / low) / math.log(high / low) * (WIDTH - left - 60)

    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" font-family="sans-serif" font-size="13" fill="{INK}">',
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>',
        f'<text x="20" y="26" font-size="17" font-weight="bold">{escape(title)}</text>',
        f'<text x="20" y="46" fill="#555555">{escape(below)}</text>',
    ]
    colours = dict(zip(columns, BARS))
    used = [column for column in columns if any(column in of for _, of in groups)]
    x = left - 28
    for column in used:
        out.append(f'<rect x="{x}" y="63" width="22" height="12" fill="{colours[column]}" rx="1.5"/><text x="{x + 28}" y="73.5">{escape(column)}</text>')
        x += 55 + int(7.2 * len(column))
    foot, tick = height - BOTTOM, low
    while tick <= high:
        x = across(tick)
        out.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top - 8}" y2="{foot}" stroke="{FAINT}"/>')
        out.append(f'<text x="{x:.1f}" y="{foot + 18}" text-anchor="middle" fill="#555555">{tick:g} s</text>')
        tick *= 10
    y = float(top)
    for label, of in groups:
        out.append(f'<text x="{left - 10}" y="{y + thick * len(of) / 2 + 4.5:.1f}" text-anchor="end">{escape(label)}</text>')
        for column in columns:
            if column in of:
                end = across(of[column])
                out.append(f'<rect x="{left}" y="{y + 1:.1f}" width="{max(end - left, 1):.1f}" height="{thick - 2}" fill="{colours[column]}" rx="1.5"/>')
                out.append(f'<text x="{end + 5:.1f}" y="{y + 11.5:.1f}" font-size="11">{of[column]:.3g}</text>')
                y += thick
        y += apart
    out.append("</svg>")
    return "\n".join(out) + "\n"
