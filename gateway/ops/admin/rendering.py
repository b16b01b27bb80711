"""Values as people read them on the pages: times, numbers, money, words for states, Markdown, and charts. Pure.

The pages are English, so are their numbers. Charts are SVG without text, stretched to their place by the browser; what
stands on their scales is HTML beside them, so that it keeps its size on every screen."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from markdown_it import MarkdownIt
from markupsafe import Markup, escape

from gateway.limits import QUEUE_PAST_S

_MINUTE_S: Final = 60
_HOUR_S: Final = 3600
_DAY_S: Final = 86_400
_WIDTH: Final = 1000
_HEIGHT: Final = 100

_MARKDOWN: Final = MarkdownIt("commonmark", {"html": False, "linkify": False}).enable("table").disable("image")

_STATES: Final = {
    "queued": "waiting",
    "pending": "on its way",
    "new": "on its way",
    "unknown": "perhaps sent",
    "timed_out": "timed out",
    "active": "open",
}


def _at(value: str | datetime) -> datetime:
    at = value if isinstance(value, datetime) else datetime.fromisoformat(value)
    return at.astimezone(UTC)


def when(value: str | None, now_ms: int) -> Markup:
    """Show a time as how long ago it was, or how soon it is, with the exact one for those who point at it."""
    if value is None:
        return Markup('<span class="faint">never</span>')
    at = _at(value)
    seconds = now_ms / 1000 - at.timestamp()
    words = f"{duration(seconds * 1000)} ago" if seconds >= 0 else f"in {duration(-seconds * 1000)}"
    shown = "just now" if 0 <= seconds < 1 else f"{at:%d %b %Y}" if seconds >= 7 * _DAY_S else words
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(
        at.isoformat(), f"{at:%Y-%m-%d %H:%M:%S} UTC", shown
    )


def clock_time(value: str) -> Markup:
    """Show a time of the last days: hour, minute and second."""
    at = _at(value)
    shown = f"{at:%H:%M:%S}"
    return Markup('<time datetime="{0}" title="{1}">{2}</time>').format(at.isoformat(), f"{at:%Y-%m-%d} UTC", shown)


def duration(ms: float | None) -> str:
    """Show how long something took, in the largest units that say enough."""
    if ms is None:
        return "–"
    if ms < 1000:
        return f"{ms:.0f} ms" if ms >= 1 else "0 s"
    seconds = ms / 1000
    if seconds < 10:
        return f"{seconds:.1f} s".replace(".0 ", " ")
    if seconds < _MINUTE_S:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_S:
        return f"{seconds // _MINUTE_S:.0f} min"
    if seconds < _DAY_S:
        return f"{seconds // _HOUR_S:.0f} h {seconds % _HOUR_S // _MINUTE_S:.0f} min"
    days = int(seconds // _DAY_S)
    return f"{days} day{'s' * (days != 1)}"


def number(count: float) -> str:
    """Show a count, with commas; what is no whole number with one digit."""
    return f"{count:,.0f}" if count == int(count) or count >= 100 else f"{count:,.1f}"


def short(count: float) -> str:
    """Show a large count in three figures."""
    for unit, size in (("B", 1e9), ("M", 1e6), ("k", 1e3)):
        if count >= size:
            return f"{count / size:.1f}{unit}".replace(".0", "")
    return number(count)


def cost(usd: float) -> str:
    """Show dollars; cents with up to two more digits where there are few of them."""
    if usd == 0 or usd >= 0.1:
        return f"${usd:,.2f}" if usd else "$0"
    digits = f"{usd:.4f}".rstrip("0")
    return f"${digits}" if len(digits) >= len("0.00") else f"${usd:.2f}"


def state(word: str) -> str:
    """Return the word that people use for a state."""
    return _STATES.get(word, word.replace("_", " "))


def initials(name: str) -> str:
    """Return what stands for a person in a small circle: the first letters of two words, or of a key."""
    words = [word for word in name.replace(":", " ").replace(".", " ").split() if word[0].isalnum()]
    return "".join(word[0] for word in words[:2]).upper() or "?"


def tint(text: str) -> int:
    """Return one of eight colours, the same for the same text."""
    return sum(map(ord, text)) % 8


def markdown(text: str) -> Markup:
    """Render what was said. Markup in it stays text, and pictures, which would be fetched from elsewhere, are left
    out."""
    return Markup(_MARKDOWN.render(text))  # noqa: S704 - with `html` off everything that people wrote is escaped


def pretty(text: str) -> str:
    """Indent a text of JSON; return any other as it is."""
    try:
        return json.dumps(json.loads(text), indent=2, ensure_ascii=False)
    except ValueError:
        return text


def line_chart(points: Sequence[tuple[str, float | None]], span_ms: float, say: Callable[[float], str]) -> Markup:
    """Draw a line over the last `span_ms`: `points` are times and values, oldest first, the newest at the right edge.
    Where a value is None the line has a gap."""
    if not points:
        return Markup("")
    ends_s = _at(points[-1][0]).timestamp()
    top = _round_up(max((value for _, value in points if value is not None), default=0))
    placed = [
        (_WIDTH * (1 - (ends_s - _at(at).timestamp()) * 1000 / span_ms), None if value is None else _y(value, top))
        for at, value in points
    ]
    parts = []
    for stretch in _stretches(placed):
        along = " ".join(f"{x:.1f},{y:.1f}" for x, y in stretch)
        first, last = stretch[0][0], stretch[-1][0]
        parts.append(f'<polygon class="area" points="{first:.1f},{_HEIGHT} {along} {last:.1f},{_HEIGHT}"/>')
        parts.append(f'<polyline class="line" points="{along}"/>')
        if len(stretch) == 1:  # one point alone is no line
            parts.append(f'<line class="line" x1="{first - 3:.1f}" x2="{first + 3:.1f}" y1="{stretch[0][1]:.1f}" ')
            parts.append(f'y2="{stretch[0][1]:.1f}"/>')
    return _framed("".join(parts), top, say, f"{duration(span_ms)} ago", "now")


def bar_chart(
    bars: Sequence[tuple[str, float, float]], say: Callable[[float], str], *, first: str = "", last: str = "now"
) -> Markup:
    """Draw bars, oldest first: a name, a value, and how much of it is of the bad kind."""
    if not bars:
        return Markup("")
    top = _round_up(max(value for _, value, _ in bars))
    step = _WIDTH / len(bars)
    parts = []
    for place, (name, value, bad) in enumerate(bars):
        title = f"<title>{escape(name)}: {escape(say(value))}</title>"
        parts.append(f"<g>{title}{_bar(place, step, value, top, 'bar')}{_bar(place, step, bad, top, 'bad')}</g>")
    return _framed("".join(parts), top, say, first or bars[0][0], last)


_Row = Mapping[str, Any]


def span_bars(spans: Sequence[_Row], counted: str, bad: str) -> Markup:
    """Draw what was counted in each five minutes of the last day, and how much of it is bad."""
    bars = [(f"{_at(span['at']):%H:%M} UTC", span[counted], span[bad]) for span in spans]
    return bar_chart(bars, number, first=f"{duration(_DAY_S * 1000)} ago")


def span_line(spans: Sequence[_Row], name: str) -> Markup:
    """Draw durations over the last day."""
    return line_chart([(span["at"], span[name]) for span in spans], _DAY_S * 1000, duration)


def waiting_line(moments: Sequence[_Row]) -> Markup:
    """Draw how much waited in the last ten minutes."""
    return line_chart([(each["at"], each["messages"]) for each in moments], QUEUE_PAST_S * 1000, number)


def hour_bars(hours: Sequence[_Row], now_ms: int) -> Markup:
    """Draw the cost of each hour of the last day, those without any, too."""
    costs = {_at(hour["at"]): hour["cost"] for hour in hours}
    newest = datetime.fromtimestamp(now_ms // 1000 // _HOUR_S * _HOUR_S, UTC)
    times = [newest - timedelta(hours=ago) for ago in range(23, -1, -1)]
    bars = [(f"{at:%H:%M} UTC", costs.get(at, 0.0), 0.0) for at in times]
    return bar_chart(bars, cost, first=f"{duration(_DAY_S * 1000)} ago")


def day_bars(rows: Sequence[_Row], measure: str, days: int, now_ms: int) -> Markup:
    """Draw a measure of usage for each of the last days."""
    newest = datetime.fromtimestamp(now_ms / 1000, UTC).date()
    sums = dict.fromkeys((str(newest - timedelta(days=ago)) for ago in range(days - 1, -1, -1)), 0.0)
    for row in rows:
        sums[row["day"]] = sums.get(row["day"], 0.0) + measured(row, measure)
    bars = [(day, value, 0.0) for day, value in sums.items()]
    return bar_chart(bars, cost if measure == "cost" else short, last="today")


def measured(row: _Row, measure: str) -> float:
    """Read a measure of a row of usage; tokens are those in and out together."""
    return float(row["prompt_tokens"] + row["completion_tokens"] if measure == "tokens" else row[measure])


MEASURES: Final = ("cost", "tokens", "calls", "turns")


def usage_by(rows: Sequence[_Row], by: str) -> list[tuple[str, Mapping[str, float]]]:
    """Sum usage by `key`, the greatest spender first, or by `day`, the newest first."""
    sums: dict[str, dict[str, float]] = {}
    for row in rows:
        of = sums.setdefault(row[by], dict.fromkeys(MEASURES, 0.0))
        for measure in MEASURES:
            of[measure] += measured(row, measure)
    if by == "day":
        return sorted(sums.items(), reverse=True)
    return sorted(sums.items(), key=lambda item: (-item[1]["cost"], -item[1]["tokens"], item[0]))


def _bar(place: int, step: float, value: float, top: float, kind: str) -> str:
    if not value:
        return ""
    y = _y(value, top)
    x, width = place * step + step * 0.1, step * 0.8
    return f'<rect class="{kind}" x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_HEIGHT - y:.1f}"/>'


def _framed(drawn: str, top: float, say: Callable[[float], str], first: str, last: str) -> Markup:
    """Put a drawing between its scales. It is hidden from those who do not see: its caption says what it shows."""
    half = _HEIGHT / 2
    grid = "".join(f'<line class="grid" x1="0" x2="{_WIDTH}" y1="{y}" y2="{y}"/>' for y in (0, half, _HEIGHT))
    svg = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" preserveAspectRatio="none">{grid}{drawn}</svg>'
    across = f"<span>{escape(first)}</span><span>{escape(last)}</span>"
    middle = "" if say in (number, short) and top == 1 else say(top / 2)  # nothing that is counted comes in halves
    scale = f'<div class="scale up"><span>{escape(say(top))}</span><span>{escape(middle)}</span><span>0</span></div>'
    drawn = f'<div class="plot" aria-hidden="true">{scale}{svg}<div class="scale across">{across}</div></div>'
    return Markup(drawn)  # noqa: S704 - numbers of ours, and words that were escaped above


def _y(value: float, top: float) -> float:
    return _HEIGHT * (1 - value / top)


def _stretches(placed: Iterable[tuple[float, float | None]]) -> list[list[tuple[float, float]]]:
    """Return the parts of a line between its gaps."""
    found: list[list[tuple[float, float]]] = [[]]
    for x, y in placed:
        if y is None:
            found.append([])
        else:
            found[-1].append((x, y))
    return [stretch for stretch in found if stretch]


def _round_up(value: float) -> float:
    """Return the end of a scale that holds `value`: a number that one can halve in one's head."""
    if value <= 0:
        return 1
    ten = 10.0 ** (len(f"{int(value)}") - 1) if value >= 1 else 1e-6
    while ten * 10 <= value:
        ten *= 10
    return next(step * ten for step in (1, 2, 4, 6, 8, 10) if step * ten >= value * 0.999999)


def steps(hops: Sequence[Mapping[str, Any]]) -> list[tuple[Mapping[str, Any], float | None]]:
    """Return each hop of a trace with the milliseconds since the one before it; None where one has no time."""
    times = [_at(hop["at"]).timestamp() * 1000 if hop["at"] else None for hop in hops]
    taken = [None if None in pair else pair[1] - pair[0] for pair in pairwise(times)]  # type: ignore[operator]
    return list(zip(hops, [None, *taken], strict=False))


_IN_WORDS: Final = (when, clock_time, duration, number, short, cost, state, initials, tint, markdown, pretty)
_DRAWN: Final = (span_bars, span_line, waiting_line, hour_bars, day_bars, usage_by, steps)
FILTERS: Final[Mapping[str, Callable[..., Any]]] = {each.__name__: each for each in (*_IN_WORDS, *_DRAWN)}
