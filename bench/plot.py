#!/usr/bin/env python3
"""Draws the report of `ec_bench kernels --json` or `ec_bench host --json` as SVG.

plot.py REPORT.JSON FOLDER writes into FOLDER, of a report of kernels, ladder.svg and chunk-size.svg (throughput over
chunk size); of a report of host, host-chunk-size.svg (the same for pinned chunks, GPU and CPU, and where they cross).
Exit status 1 if the report lacks the rows for a plot, 2 if it is no such report.
"""
import json
import math
import os
import sys
from xml.sax.saxutils import escape

COLOURS = ["#4269d0", "#efb118", "#ff725c", "#6cc5b0", "#3ca951", "#a463f2", "#97bbf5", "#9c6b4e", "#9498a0", "#111111",
           "#7b1fa2", "#00838f", "#c62828", "#558b2f"]
SHAPES = [(8, 3), (10, 4)]


class Svg:
    def __init__(self, width, height):
        self.size = (width, height)
        self.parts = []

    def rect(self, x, y, width, height, fill, title):
        self.parts.append(f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}">'
                          f'<title>{escape(title)}</title></rect>')

    def line(self, points, colour, width=1.0, dash=""):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dashes = f' stroke-dasharray="{dash}"' if dash else ""
        self.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dashes}/>')

    def text(self, x, y, content, anchor="start", size=12):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" font-size="{size}">'
                          f'{escape(content)}</text>')

    def dot(self, x, y, colour, title):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4" fill="white" stroke="{colour}" stroke-width="2">'
                          f'<title>{escape(title)}</title></circle>')

    def write(self, file):
        width, height = self.size
        with open(file, "w", encoding="utf-8") as f:
            f.write(f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                    'font-family="sans-serif">\n<rect width="100%" height="100%" fill="white"/>\n')
            f.write("\n".join(self.parts) + "\n</svg>\n")


def round_up(value):
    """The next 1, 2, 2.5 or 5 times a power of ten."""
    power = 10 ** math.floor(math.log10(value))
    return next(step * power for step in (1, 2, 2.5, 5, 10) if step * power >= value * (1 - 1e-9))


def copy_gbps(row):
    return row["moved_gbps"] / row["ratio_copy"]


def encodes(rows, shape):
    return [r for r in rows if r["verified"] and r["op"] == "encode" and (r["k"], r["m"]) == shape
            and r["stripes"] == 1 and r["technique"] == "reed_sol_van"]


def largest_chunk(rows):
    most = max((r["chunk_bytes"] for r in rows), default=0)
    return [r for r in rows if r["chunk_bytes"] == most]


def plot_ladder(rows, file):
    groups = [(shape, largest_chunk(encodes(rows, shape))) for shape in SHAPES]
    groups = [(shape, group) for shape, group in groups if group]
    if not groups:
        return False
    names = list(dict.fromkeys(r["kernel"] for _, group in groups for r in group if r["kernel"] != "xor")) + ["xor"]
    left, right, bar = 190, 780, 16
    most = max(max(copy_gbps(r), r["moved_gbps"]) for _, group in groups for r in group)
    scale = (right - left) / (most * 1.05)
    svg = Svg(880, 40 + sum(50 + bar * len(names) for _ in groups))
    y = 24
    for (k, m), group in groups:
        svg.text(left, y, f"{k}+{m}, encode, chunks of {group[0]['chunk_bytes'] / 2**20:.0f} MiB: GB/s moved", size=14)
        top = y + 8
        by_name = {r["kernel"]: r for r in group}
        for i, name in enumerate(n for n in names if n in by_name):
            r, at = by_name[name], top + bar * i
            svg.text(left - 6, at + bar - 4, name, "end")
            svg.rect(left, at + 1, r["moved_gbps"] * scale, bar - 2, COLOURS[8] if name == "xor" else COLOURS[0],
                     f"{name}: {r['moved_gbps']:.0f} GB/s")
            svg.text(left + r["moved_gbps"] * scale + 4, at + bar - 4, f"{r['moved_gbps']:.0f}", size=11)
            y = at + bar
        x = left + copy_gbps(group[0]) * scale
        svg.line([(x, top - 2), (x, y + 4)], COLOURS[2], 2)
        svg.text(x, y + 16, f"copy {copy_gbps(group[0]):.0f}", "middle", 11)
        y += 50
    svg.write(file)
    return True


def size_name(size):
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def plot_over_size(title, lines, file, marks=()):
    """lines: (name, [(chunk bytes, GB/s)], colour, dash); marks: (chunk bytes, GB/s, colour, text)."""
    sizes = sorted({size for _, points, _, _ in lines for size, _ in points})
    if len(sizes) < 2:
        return False
    left, right, top, bottom = 70, 640, 40, 400
    most = round_up(max(gbps for _, points, _, _ in lines for _, gbps in points))
    low, high = math.log2(sizes[0]), math.log2(sizes[-1])

    def place(size, gbps):
        return (left + (math.log2(size) - low) / (high - low) * (right - left), bottom - gbps / most * (bottom - top))

    svg = Svg(860, 450)
    svg.text(left, 24, title, size=14)
    for i in range(6):
        y = place(sizes[0], most * i / 5)[1]
        svg.line([(left, y), (right, y)], "#dddddd")
        svg.text(left - 6, y + 4, f"{most * i / 5:.{0 if most >= 5 else 2}f}", "end")
    for size in sizes:
        if math.log2(size).is_integer():
            svg.text(place(size, 0)[0], bottom + 18, size_name(size), "middle", 11)
    for i, (name, points, colour, dash) in enumerate(lines):
        svg.line([place(*p) for p in points], colour, 2, dash)
        svg.line([(right + 20, top + 18 * i), (right + 44, top + 18 * i)], colour, 2, dash)
        svg.text(right + 50, top + 18 * i + 4, name)
    for i, (size, gbps, colour, text) in enumerate(marks):
        svg.dot(*place(size, gbps), colour, text)
        svg.text(right + 20, top + 18 * (len(lines) + 1 + i), text, size=11)
    svg.write(file)
    return True


def plot_sizes(rows, file):
    rows = encodes(rows, (10, 4))
    lines = []
    for i, name in enumerate(dict.fromkeys(r["kernel"] for r in rows)):
        points = sorted((r["chunk_bytes"], r["moved_gbps"]) for r in rows if r["kernel"] == name)
        dash = "4 3" if i >= len(COLOURS) or name == "xor" else ""
        lines.append((name, points, COLOURS[i % len(COLOURS)], dash))
    return plot_over_size("10+4, encode, one stripe a launch: GB/s moved over the size of a chunk", lines, file)


def crossings(one, other):
    """Where the first line passes the second, (chunk bytes, GB/s, whether it rises above), straight between points."""
    other = dict(other)
    both = [(math.log2(size), gbps, gbps - other[size]) for size, gbps in one if size in other]
    found = []
    for (x0, y0, d0), (x1, y1, d1) in zip(both, both[1:]):
        if (d0 > 0) != (d1 > 0):
            part = d0 / (d0 - d1)
            found.append((2 ** (x0 + part * (x1 - x0)), y0 + part * (y1 - y0), d1 > 0))
    return found


def about(size):
    return f"{size / 2**20:.1f} MiB" if size >= 1 << 20 else f"{size / 2**10:.0f} KiB"


def host_lines(rows, shape):
    """Encode of pinned chunks: the GPU called by one thread, the CPU, ISA-L on one and on the most threads, the link."""
    rows = [r for r in rows if r["verified"] and r["op"] == "encode" and r["residence"] == "pinned"
            and (r["k"], r["m"]) == shape]
    cores = max((r["threads"] for r in rows if r["backend"] == "isal"), default=1)
    wanted = [("GPU, pinned, 1 thread", "cuda", 1), ("CPU (x86), 1 thread", "x86", 1), ("ISA-L, 1 thread", "isal", 1)]
    if cores > 1:
        wanted.append((f"ISA-L, {cores} threads", "isal", cores))
    lines = []
    for i, (name, backend, threads) in enumerate(wanted):
        # A back end that was not there was replaced by another.
        points = sorted((r["chunk_bytes"], r["source_gbps"]) for r in rows
                        if (r["backend"], r["chosen"], r["threads"]) == (backend, backend, threads))
        if points:
            lines.append((name, points, COLOURS[i], ""))
    gpu = [r for r in rows if r["backend"] == "cuda" and r["threads"] == 1]
    lines.append(("ceiling of the link", sorted((r["chunk_bytes"], r["ceiling_gbps"]) for r in gpu), COLOURS[8], "4 3"))
    return lines


def plot_host_sizes(rows, file):
    def sizes(shape):
        return len({r["chunk_bytes"] for r in rows if r["backend"] == "isal" and (r["k"], r["m"]) == shape
                    and r["op"] == "encode" and r["residence"] == "pinned"})

    shapes = list(dict.fromkeys([(10, 4)] + [(r["k"], r["m"]) for r in rows]))
    k, m = max(shapes, key=sizes)
    lines = host_lines(rows, (k, m))
    if not lines[0][0].startswith("GPU"):
        return False
    marks = [(size, gbps, colour, f"GPU {'above' if above else 'below'} {name} from {about(size)} on")
             for name, points, colour, dash in lines[1:] if not dash
             for size, gbps, above in crossings(lines[0][1], points)]
    return plot_over_size(f"{k}+{m}, encode, pinned chunks, synchronous calls: GB/s of source over the size of a chunk",
                          lines, file, marks)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    try:
        with open(sys.argv[1], encoding="utf-8") as f:
            rows = json.load(f)["rows"]
        plots = {"host-chunk-size.svg": plot_host_sizes} if any("residence" in r for r in rows) else {
            "ladder.svg": plot_ladder, "chunk-size.svg": plot_sizes}
        drawn = {name: plot(rows, os.path.join(sys.argv[2], name)) for name, plot in plots.items()}
    except (OSError, ValueError, KeyError, TypeError) as e:
        print(f"plot.py: {sys.argv[1]}: {e!r}", file=sys.stderr)
        return 2
    for name in (n for n, done in drawn.items() if not done):
        print(f"plot.py: {sys.argv[1]}: no rows for {name}", file=sys.stderr)
    return 0 if all(drawn.values()) else 1


if __name__ == "__main__":
    sys.exit(main())
