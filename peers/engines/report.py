"""Medians, the Markdown table, and whether the goals are met."""

from dataclasses import asdict
from statistics import median

HEAD = [
    "engine", "workload", "contestant", "cycles/s", "lowest, highest", "acquire p50, µs", "mean, µs", "client CPU, µs/cycle", "failed",
    "quorlock/native: cycles", "p50", "mean",
]  # fmt: skip
# Above this, quorlock's p50 for one client misses its goal.
P50_BOUND = 1.3


class Row:
    """One contestant with one load on one engine, over all rounds."""

    def __init__(self, engine, load, contestant, runs):
        self.engine, self.load, self.contestant, self.runs = engine, load, contestant, runs
        self.is_quorlock = contestant == "quorlock"
        self.rates = [run.rate for run in runs]
        self.rate = median(self.rates)
        self.cpu_us = median(run.cpu_us for run in runs)
        self.mean_us = median(run.mean_us for run in runs)
        self.p50_us = median(run.p50_us for run in runs)
        self.failed = sum(run.failed for run in runs)

    def cells(self, quorlock):
        """`quorlock` is quorlock's row with the same load, if there is one."""
        ratios = ["", "", ""]
        if quorlock and not self.is_quorlock:
            pairs = [(quorlock.rate, self.rate), (quorlock.p50_us, self.p50_us), (quorlock.mean_us, self.mean_us)]
            ratios = [f"{ratio(*pair):.2f}" for pair in pairs]
        return [
            self.engine, str(self.load), self.contestant, f"{self.rate:.0f}",
            f"{min(self.rates):.0f}, {max(self.rates):.0f}", f"{self.p50_us:.0f}", f"{self.mean_us:.0f}",
            f"{self.cpu_us:.0f}", str(self.failed), *ratios,
        ]  # fmt: skip

    def to_json(self):
        return {
            "engine": self.engine, "workload": self.load.workload, "clients": self.load.clients, "contestant": self.contestant,
            "rate": self.rate, "p50_us": self.p50_us, "mean_us": self.mean_us, "cpu_us": self.cpu_us,
            "failed": self.failed, "runs": [asdict(run) for run in self.runs],
        }  # fmt: skip


def ratio(quorlock, native):
    """A contestant that did nothing in its time has a rate of 0."""
    return quorlock / native if native else float("inf")


def table(rows):
    lines = [HEAD, ["---"] * len(HEAD)]
    lines += [row.cells(quorlock_of(rows, row)) for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def goals(rows):
    """A line for each goal that these rows can decide."""
    lines = []
    for row in rows:
        quorlock = quorlock_of(rows, row)
        if row.is_quorlock or not quorlock or row.load.workload != "own":
            continue
        if row.load.clients == 1:
            found = ratio(quorlock.p50_us, row.p50_us)
            goal, is_met = f"p50 of an acquire at most {P50_BOUND} times that of", found <= P50_BOUND
        else:
            found = ratio(quorlock.rate, row.rate)
            goal, is_met = "cycles/s at least those of", found >= 1
        verdict = "met" if is_met else "**missed**"
        lines.append(f"- {row.engine}, {row.load}: {goal} {row.contestant}: {found:.2f}, {verdict}")
    return "\n".join(lines)


def quorlock_of(rows, row):
    same = (other for other in rows if other.is_quorlock and (other.engine, other.load) == (row.engine, row.load))
    return next(same, None)
