"""Measure a service: a load, requests one by one and in bulk, malformed ones, and an end in mid-load."""

from __future__ import annotations

import asyncio
import json
import signal
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from experiments.service.client import Client, Load, Tally, get, post_bytes, request_bytes
from experiments.service.malformed import send_all, wrong_requests
from experiments.service.people import ServedModel, make_model
from experiments.service.process import ServiceProcess

Numbers = dict[str, Any]
PROBE_SECONDS = 0.1  # between two looks at /health while the service works
BULK = 1_000  # people of a large request
WARM_UP = 200  # requests before anything is measured


@dataclass(frozen=True)
class Sizes:
    """How much is asked. marks : numbers of requests after which the memory is read. rounds : of ends in mid-load."""

    requests: int = 10_000
    at_once: int = 32
    marks: tuple[int, ...] = (1_000, 5_000, 10_000)
    alone: int = 1_000
    bulk: int = 20
    fuzzed: int = 100
    rounds: int = 10
    before_stop: int = 1_000

    @property
    def people(self) -> int:
        """People who are asked about at most; an end in mid-load goes on for some seconds."""
        return max(self.requests, self.before_stop + 10_000)


SMALL = Sizes(requests=1_000, marks=(200, 500, 1_000), alone=50, bulk=2, fuzzed=30, rounds=1, before_stop=200)


def run_all(sizes: Sizes, report: Callable[[str, Numbers], None]) -> None:
    """Measure everything. report : is told each result under its name."""
    with tempfile.TemporaryDirectory(prefix="optfair-service-") as folder:
        model = make_model(Path(folder), sizes.people)
        with ServiceProcess(model.path) as service:
            warm_up(service, model)
            report("load", measure_load(service, model, sizes))
            report("alone", measure_alone(service, model, sizes))
            report("bulk", measure_bulk(service, model, sizes))
            report("malformed", measure_malformed(service, model, sizes))
            service.send()
            service.wait()
        for name, keeps in (("stop", True), ("stop, a connection each", False)):
            report(name, measure_stops(model, sizes, keeps))


def warm_up(service: ServiceProcess, model: ServedModel) -> None:
    """Ask until everything has been imported."""
    Load(model.bodies[:WARM_UP], model.answers[:WARM_UP]).drive(service.port, 8)


def measure_load(service: ServiceProcess, model: ServedModel, sizes: Sizes) -> Numbers:
    """Ask so many at once over connections that are kept, and about the health meanwhile."""
    memory = {0: service.anonymous_bytes()}

    def after(n: int) -> None:
        if n in sizes.marks:
            memory[n] = service.anonymous_bytes()

    load = Load(model.bodies[: sizes.requests], model.answers)
    start = time.perf_counter()
    tally, probes = asyncio.run(_drive_and_probe(load, service.port, sizes.at_once, after))
    seconds = time.perf_counter() - start
    health = quantiles(probes, "health_")
    rate = len(tally.seconds) / seconds
    return {
        "at_once": sizes.at_once,
        **outcome(tally),
        "rate": rate,
        **quantiles(tally.seconds),
        **health,
        "memory": memory,
    }


async def _drive_and_probe(
    load: Load, port: int, at_once: int, after: Callable[[int], None]
) -> tuple[Tally, list[float]]:
    """Drive a load while another connection asks about the health; return the seconds of its answers too."""
    probes: list[float] = []
    probing = asyncio.create_task(_probe(port, probes))
    tally = await load.drive_here(port, at_once, after)
    if probing.done():
        probing.result()  # it ends by an error only
    probing.cancel()
    await asyncio.gather(probing, return_exceptions=True)
    return tally, probes


async def _probe(port: int, probes: list[float]) -> None:
    client = Client(port)
    try:
        while True:
            start = time.perf_counter()
            response = await client.ask(request_bytes("GET", "/health"))
            if response.status != 200:
                raise RuntimeError(f"/health: {response.status} under load")
            probes.append(time.perf_counter() - start)
            await asyncio.sleep(PROBE_SECONDS)
    finally:
        await client.close()


def measure_alone(service: ServiceProcess, model: ServedModel, sizes: Sizes) -> Numbers:
    """Ask one after the other."""
    load = Load(model.bodies[: sizes.alone], model.answers)
    start = time.perf_counter()
    tally = load.drive(service.port, 1)
    rate = len(tally.seconds) / (time.perf_counter() - start)
    return {"at_once": 1, **outcome(tally), "rate": rate, **quantiles(tally.seconds)}


def measure_bulk(service: ServiceProcess, model: ServedModel, sizes: Sizes) -> Numbers:
    """Ask about many people at a time, a request after the other."""
    people, answers = model.bodies[:BULK], model.answers[:BULK]
    content = post_bytes("/predict", json.dumps({"people": people}).encode())
    seconds, n_wrong = asyncio.run(_ask_bulk(service.port, content, answers, sizes.bulk))
    return {"people": len(people), "requests": sizes.bulk, "wrong": n_wrong, **quantiles(seconds),
            "people_rate": len(people) * sizes.bulk / sum(seconds)}  # fmt: skip


async def _ask_bulk(port: int, content: bytes, answers: list[str], n: int) -> tuple[list[float], int]:
    client, seconds, n_wrong = Client(port), [], 0
    for _ in range(n):
        start = time.perf_counter()
        response = await client.ask(content)
        seconds.append(time.perf_counter() - start)
        pairs = zip(response.content["answers"], answers, strict=True)
        n_wrong += sum(entry["answer"] != answer for entry, answer in pairs)
    await client.close()
    return seconds, n_wrong


def measure_malformed(service: ServiceProcess, model: ServedModel, sizes: Sizes) -> Numbers:
    """Send what is wrong, and see whether the service answers as before."""
    requests = wrong_requests(model.bodies[0], sizes.fuzzed)
    statuses = send_all(service.port, requests)
    surprises = [request.name for request, status in zip(requests, statuses, strict=True) if not request.allows(status)]
    crashes = int(service.process.poll() is not None) + service.log.count("internal error")
    after = Load(model.bodies[:WARM_UP], model.answers[:WARM_UP]).drive(service.port, 8)
    counts = {str(status): n for status, n in sorted(Counter(map(str, statuses)).items())}
    return {"requests": len(requests), "statuses": counts, "surprises": surprises, "crashes": crashes,
            "health": get(service.port, "/health").status, "wrong_after": WARM_UP - after.n_right}  # fmt: skip


def measure_stops(model: ServedModel, sizes: Sizes, keeps: bool) -> Numbers:
    """Send SIGTERM in the middle of a load, some times, and count what became of the requests."""
    total, codes, seconds, n_service = Tally(), [], [], 0
    for _ in range(sizes.rounds):
        tally, code, duration, n_answered = stop_once(model, sizes, keeps)
        for name in ("n_right", "n_wrong", "n_other", "n_refused", "n_unanswered", "n_broken"):
            setattr(total, name, getattr(total, name) + getattr(tally, name))
        codes.append(code)
        seconds.append(duration)
        n_service += n_answered
    # What the service says it answered, and nobody got.
    lost = n_service - total.n_right - total.n_wrong - total.n_other
    return {"rounds": sizes.rounds, "at_once": sizes.at_once, **outcome(total), "lost": lost, "codes": codes,
            "longest_seconds": max(seconds)}  # fmt: skip


def stop_once(model: ServedModel, sizes: Sizes, keeps: bool) -> tuple[Tally, int, float, int]:
    """Return what became of the requests, the exit code, the seconds from signal to end, and how many were answered."""
    with ServiceProcess(model.path) as service:
        start = [0.0]

        def after(n: int) -> None:
            if n == sizes.before_stop:
                start[0] = time.monotonic()
                service.send(signal.SIGTERM)

        load = Load(model.bodies, model.answers, keeps)
        tally = load.drive(service.port, sizes.at_once, after)
        code = service.wait()
        duration = time.monotonic() - start[0]
        n_answered, n_cut = service.answered()
        return replace(tally, n_broken=tally.n_broken + n_cut), code, duration, n_answered


# -- numbers -------------------------------------------------------------------------------------------------
def outcome(tally: Tally) -> Numbers:
    """Return how many requests were answered how."""
    return {
        "requests": tally.n_sent,
        "right": tally.n_right,
        "wrong": tally.n_wrong,
        "other": tally.n_other,
        "refused": tally.n_refused,
        "unanswered": tally.n_unanswered,
        "broken": tally.n_broken,
    }


def quantiles(seconds: list[float], prefix: str = "") -> Numbers:
    """Return the median, the 99 % point and the largest, in milliseconds."""
    values = 1e3 * np.array(seconds or [np.nan])
    points = {"p50": np.median(values), "p99": np.quantile(values, 0.99), "largest": values.max()}
    return {f"{prefix}{name}": float(value) for name, value in points.items()}
