"""Line plots as SVG, for the benchmark pages: no library, a few dozen lines of drawing."""
import html
import math

COLOURS = ("#1f6feb", "#d1242f", "#9a6700", "#1a7f37", "#8250df")
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 520, 340, 64, 16, 40, 78


def _ticks(low, high, log):
    if log:
        first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
        return [m * 10.0 ** e for e in range(first, last + 1) for m in (1, 2, 5) if low <= m * 10.0 ** e <= high * 1.001]
    step = 10 ** math.floor(math.log10(high / 4))
    step *= next(m for m in (1, 2, 5, 10) if high / (step * m) <= 6)
    return [i * step for i in range(int(high / step) + 1)]


def _number(value):
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:g}"


def line_plot(title, x_label, y_label, series, log_y=False, few_ticks=False):
    """SVG text. `series`: name -> [(x, y), ...]; x is spaced by its logarithm, with a tick at every x that occurs, or
    with few_ticks at round numbers."""
    points = [p for line in series.values() for p in line if p[1] > 0 or not log_y]
    xs = sorted({x for x, _ in points})
    top = max(y for _, y in points) * 1.08
    bottom = min(y for _, y in points) / 1.3 if log_y else 0.0

    def at(x, y):
        across = 0.5 if len(xs) == 1 else math.log(x / xs[0]) / math.log(xs[-1] / xs[0])
        up = math.log(y / bottom) / math.log(top / bottom) if log_y else y / top
        return LEFT + across * (WIDTH - LEFT - RIGHT), HEIGHT - BOTTOM - up * (HEIGHT - TOP - BOTTOM)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
           'font-family="sans-serif" font-size="11">', '<rect width="100%" height="100%" fill="#fff"/>',
           f'<text x="{WIDTH / 2}" y="20" text-anchor="middle" font-size="14">{html.escape(title)}</text>']
    for y in _ticks(bottom, top, log_y):
        if y > top:
            continue
        _, py = at(xs[0], y)
        out.append(f'<path d="M{LEFT} {py:.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>'
                   f'<text x="{LEFT - 6}" y="{py + 4:.1f}" text-anchor="end">{_number(y)}</text>')
    for x in _ticks(xs[0], xs[-1], True) if few_ticks else xs:
        px, _ = at(x, top)
        out.append(f'<text x="{px:.1f}" y="{HEIGHT - BOTTOM + 16}" text-anchor="middle">{_number(x)}</text>')
    out.append(f'<text x="{(LEFT + WIDTH - RIGHT) / 2}" y="{HEIGHT - BOTTOM + 34}" text-anchor="middle">'
               f'{html.escape(x_label)}</text><text transform="translate(14 {(TOP + HEIGHT - BOTTOM) / 2}) rotate(-90)" '
               f'text-anchor="middle">{html.escape(y_label)}</text>')
    for i, (name, line) in enumerate(series.items()):
        colour = COLOURS[i % len(COLOURS)]
        places = [at(x, y) for x, y in line if y > 0 or not log_y]
        path = "M" + "L".join(f"{x:.1f} {y:.1f}" for x, y in places)
        out.append(f'<path d="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        out += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in places]
        px, py = LEFT + i * (WIDTH - LEFT) / max(3, len(series)), HEIGHT - 16
        out.append(f'<rect x="{px:.0f}" y="{py - 9}" width="10" height="10" fill="{colour}"/>'
                   f'<text x="{px + 15:.0f}" y="{py}">{html.escape(name)}</text>')
    return "\n".join(out + ["</svg>", ""])
