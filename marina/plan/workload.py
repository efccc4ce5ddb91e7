"""The workload of a plan: a workload.yaml, or the options of `marina plan`."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from marina.errors import SpecError
from marina.fields import Section
from marina.plan.simulator.values import Floats, Ints, Requests
from marina.server.hosts.table import HostName
from marina.server.run.state import DEFAULT_HOST

HERE = "here"  # this machine, among the places to run


class Demand(Section):
    """The load of one model."""

    name: str
    """The model: a spec in models/ that is calibrated."""

    rate: float | None = Field(default=None, gt=0)
    """Requests per second, at the peak of the day. With `log`, the log's own rate if left out."""

    instances: int = Field(default=1, ge=1)
    """Texts of a request."""

    lengths: str | None = None
    """Texts (.csv, .jsonl), a histogram of lengths (.json), or `mix`. Default: the spec's examples, else mix."""

    curve: dict[float, float] | None = None
    """The rate over a day: hours (0 to 24) to requests per second; between them it changes evenly. The peak is planned
    for, and the answer says how many instances the other hours need."""

    log: str | None = None
    """Times of requests to replay: a .csv with the columns `seconds` and, if known, `tokens`."""

    @model_validator(mode="after")
    def _some_rate(self) -> Demand:
        rate_sources = [self.rate is not None, self.curve is not None, self.log is not None]
        if not any(rate_sources):
            raise ValueError(f"{self.name}: give a rate, a curve or a log")
        if self.curve is not None and (self.rate is not None or not self.curve or min(self.curve.values()) < 0):
            raise ValueError(f"{self.name}: a curve has hours and rates of 0 or more, and stands in place of a rate")
        if self.curve is not None and not 0 <= min(self.curve) <= max(self.curve) <= 24:
            raise ValueError(f"{self.name}: the hours of a curve go from 0 to 24")
        if self.curve is not None and max(self.curve.values()) == 0:
            raise ValueError(f"{self.name}: every rate of the curve is 0")
        return self

    @property
    def peak(self) -> float | None:
        """Requests per second to plan for; None if only the log says."""
        return max(self.curve.values()) if self.curve else self.rate

    def rate_at(self, hour: float) -> float:
        """Requests per second at an hour of the day; between the hours of the curve it changes evenly, midnight too."""
        if not self.curve:
            return self.peak or 1.0
        hours = sorted(self.curve)
        return float(np.interp(hour, hours, [self.curve[start] for start in hours], period=24))


class Promise(Section):
    """What is promised to clients."""

    percentile: float = Field(default=99.0, gt=0, lt=100)
    """Of the latencies of answered requests."""

    latency_ms: float = Field(gt=0)
    """Milliseconds that this percentile may take."""

    answered: float = Field(default=0.999, gt=0, le=1)
    """The share of requests that must be answered."""

    one_down: bool = False
    """Whether all of this holds while one instance is down."""

    confidence: float | None = Field(default=None, ge=0.5, le=0.99)
    """The share of repeated measurements in which it holds. Default: the prediction decides, whatever its range."""

    def __str__(self) -> str:
        while_down = " while one instance is down" if self.one_down else ""
        confidently = "" if self.confidence is None else f", in {self.confidence:.4g} of measurements"
        return f"p{self.percentile:g} <= {self.latency_ms:g} ms{while_down}{confidently}"


class Workload(Section):
    """A workload.yaml."""

    models: tuple[Demand, ...] = Field(min_length=1)
    promise: Promise
    budget: float | None = Field(default=None, gt=0)
    """USD a month."""

    places: tuple[str, ...] = (HERE,)
    """Where it may run: `here`, or instance types of instances.yaml."""

    host: HostName = DEFAULT_HOST
    """What carries the workers: `torchserve` or `direct`."""

    price: float | None = Field(default=None, ge=0)
    """USD an hour of a machine like this one."""

    balancer: str = Field(default="random", pattern="^(random|least)$")
    """How a balancer chooses an instance: `random`, or `least`: the fewest requests under way."""


class Traffic(NamedTuple):
    """The requests of one model, from which any number can be drawn.

    Attributes:
        rate: requests per second.
        instances: of a request.
        tokens: of texts, from which the texts of requests are drawn, shape (any,); those of the rows of a text follow
            each other.
        log: seconds of logged requests, ascending; None if requests come at random (Poisson).
        rows: of a text.
    """

    rate: float
    instances: int
    tokens: Ints
    log: Floats | None = None
    rows: int = 1

    @property
    def rows_of_request(self) -> int:
        """The rows of all texts of a request."""
        return self.instances * self.rows


def read_log(path: Path) -> tuple[Floats, Ints | None]:
    """The seconds of logged requests from the first one on, ascending, and their tokens if they are known.

    Raises:
        SpecError: the file cannot be read, has values that no request can have, or fewer than two requests.
    """
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:  # Excel writes a mark at the start of a file
            rows = list(csv.DictReader(file))
        seconds = np.array([float(row["seconds"]) for row in rows])
        tokens = np.array([int(row["tokens"]) for row in rows], np.int64) if rows and rows[0].get("tokens") else None
    except KeyError:
        raise SpecError(f"{path} has no column seconds; write one line with the time of each request") from None
    except (OSError, ValueError, TypeError, OverflowError, csv.Error) as error:  # TypeError: a line has fewer columns
        raise SpecError(f"{path} cannot be read: {error}") from None
    if not np.isfinite(seconds).all() or (tokens is not None and tokens.min() < 1):
        raise SpecError(f"{path}: seconds must be finite, and tokens at least 1")
    if len(seconds) < 2 or seconds.max() == seconds.min():
        raise SpecError(f"{path} must have the times of at least two requests that are apart")
    order = np.argsort(seconds, kind="stable")
    return seconds[order] - seconds.min(), None if tokens is None else tokens[order]


def busiest(log: Floats, count: int) -> Floats:
    """The times of those requests that came fastest one after the other, from the first of them on.

    Args:
        log: seconds of requests, ascending.
        count: of the requests; all of a log with fewer.
    """
    if len(log) <= count:
        return log
    spans = log[count - 1 :] - log[: len(log) - count + 1]
    first = int(np.where(spans > 0, spans, np.inf).argmin())
    peak: Floats = log[first : first + count] - log[first]
    return peak


def draw(traffic: list[Traffic], count: int, share: float, seed: int) -> Requests:
    """Draw requests of several models, as they come to one system.

    Args:
        traffic: of each model.
        count: of requests.
        share: the part of each rate that comes, for example 0.1 for one of ten instances.
        seed: of the random numbers.
    """
    generator = np.random.default_rng(seed)
    total_rate = sum(model_traffic.rate for model_traffic in traffic)
    times_by_model, model, tokens, sizes = [], [], [], []
    for number, model_traffic in enumerate(traffic):
        size = max(1, round(count * model_traffic.rate / total_rate))
        if model_traffic.log is None:
            times = np.cumsum(generator.exponential(1000 / (model_traffic.rate * share), size))
        else:
            # divides the log's times, for the requested rate
            scale = model_traffic.rate * model_traffic.log[-1] / len(model_traffic.log)
            times = _in_turns(model_traffic.log, share, generator)[:size] / scale * 1000
        times_by_model.append(times)
        model.append(np.full(len(times), number))
        rows = model_traffic.rows
        texts = generator.choice(len(model_traffic.tokens) // rows, (len(times), model_traffic.instances, 1))
        places = (texts * rows + np.arange(rows)).reshape(len(times), model_traffic.rows_of_request)
        tokens.append(model_traffic.tokens[places])
        sizes.append(np.full(len(times), model_traffic.rows_of_request))
    times, numbers = np.concatenate(times_by_model), np.concatenate(model)
    order = np.argsort(times, kind="stable")
    request_tokens = [request for model_requests in tokens for request in model_requests]
    first = np.concatenate([[0], np.cumsum(np.concatenate(sizes)[order])])
    return Requests(times[order], numbers[order], first, np.concatenate([request_tokens[place] for place in order]), 0)


def _in_turns(log: Floats, share: float, generator: np.random.Generator) -> Floats:
    """The times of a log's requests at each part of a fleet that gets this share of them, one part after the other."""
    turn = (generator.random(len(log)) / share).astype(np.int64)
    turn[0] = 0  # a simulation needs a request
    kept = turn < int(1 / share + 1e-9)
    return np.sort(log[kept] + turn[kept] * log[-1])
