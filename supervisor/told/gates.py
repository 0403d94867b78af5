"""How the gates and models of a run stand, and whom they hold back: as its row tells, cleaned, and in words.

run's `told` -> gates, models, yielding (JSON values) -> a line of the screen

Told is as an older or newer version may have written it, or garbage: what is not as expected is left out.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from supervisor.told.units import count, duration, human_size

TEXTS: Final = ("state", "source")
FIGURES: Final = ("percent", "idle_s", "available", "total", "pressure")
HIGH_PRESSURE: Final = 1.0
"""Percent of the time in which somebody waits for memory, from which on it is worth a word."""


def gates(told: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the gates that something goes by: name, whether closed, the reading and who said so."""
    found = []
    for one in listed(told, "gates"):
        if isinstance(one.get("gate"), str):
            clean: dict[str, Any] = {"gate": one["gate"], "closed": one.get("closed") is True}
            clean |= {name: one[name] for name in TEXTS if isinstance(one.get(name), str)}
            found.append(clean | {name: number(one[name]) for name in FIGURES if name in one})
    return found


def models(told: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return what is in memory, by the run's books; None where no tier has a model.

    `residents` is None where nobody knows, `measured` false where the books are not reconciled.
    """
    books = told.get("models")
    if not isinstance(books, dict):
        return None
    asked = books.get("asked")
    residents = [one for one in listed(books, "residents") if isinstance(one.get("name"), str)]
    return {
        "residents": [resident(one) for one in residents] if books.get("residents") is not None else None,
        "measured": books.get("measured") is True,
        "error": text(books.get("error")),
        "usable": number(books.get("usable")),
        "swaps": number(books.get("swaps")) or 0,
        "load_s": number(books.get("load_s")),
        "loading": [one for one in asked if isinstance(one, str)] if isinstance(asked, list) else [],
    }


def resident(model: Mapping[str, Any]) -> dict[str, Any]:
    """Return one model in memory: bytes (None: nobody can tell), whose it is, and how many jobs use it."""
    return {
        "name": model["name"],
        "memory": number(model.get("memory")),
        "pinned": model.get("pinned") is True,
        "consumer": model.get("consumer") is True,
        "jobs": number(model.get("jobs")) or 0,
    }


def paused(told: Mapping[str, Any], now: int) -> dict[str, Any] | None:
    """Return the last pause in which nobody ran: how long it was, and how long ago; None for none."""
    found = told.get("paused")
    if not isinstance(found, dict) or (seconds := number(found.get("seconds"))) is None:
        return None
    until = number(found.get("until"))
    return {"seconds": seconds, "ago_s": None if until is None else round(max(0.0, (now - until) / 1e6), 1)}


def yielding(told: Mapping[str, Any]) -> dict[str, str]:
    """Return the jobs (ids as text) that were asked for their slot, each with the reason."""
    found = told.get("yielding")
    jobs = found.items() if isinstance(found, dict) else ()
    return {job: why for job, why in jobs if isinstance(why, str)}


def gates_line(found: list[dict[str, Any]]) -> str:
    """Say how the gates stand: "power: mains   presence: away 14 min   quiet: no"; "" for none."""
    return "   ".join(f"{gate['gate'].replace('_', ' ')}: {gate_in_words(gate)}" for gate in found)


def gate_in_words(gate: Mapping[str, Any]) -> str:
    """Say one reading; who said so is told where it has no figure or closes the gate: there somebody asks."""
    if gate["gate"] == "quiet":
        return "yes, closed" if gate["closed"] else "no"
    said = {"power": power, "presence": presence, "memory": memory}.get(gate["gate"], state)(gate)
    if (gate["closed"] or said in {"unknown", "away"}) and gate.get("source"):
        said += f" ({gate['source']})"
    return f"{said}, closed" if gate["closed"] else said


def state(gate: Mapping[str, Any]) -> str:
    """Say a reading of which no more is known."""
    return str(gate.get("state", "unknown"))


def power(gate: Mapping[str, Any]) -> str:
    """Say "mains", "battery 61 %" or "unknown"."""
    charge = gate.get("percent")
    return f"battery {charge:g} %" if state(gate) == "battery" and charge is not None else state(gate)


def presence(gate: Mapping[str, Any]) -> str:
    """Say "away 14 min", "present, 3 s since a touch" or "unknown"."""
    idle = gate.get("idle_s")
    match state(gate):
        case "away" if idle is not None:
            return f"away {duration(idle)}"
        case "present" if idle is not None:
            return f"present, {duration(idle)} since a touch"
        case other:
            return other


def memory(gate: Mapping[str, Any]) -> str:
    """Say "9.1 GB of 24 GB free" or "unknown", and how many wait for it where that is worth a word."""
    available, total, pressure = (gate.get(name) for name in ("available", "total", "pressure"))
    if available is None:
        return "unknown"
    of = "" if total is None else f" of {human_size(total)}"
    short = f", pressure {pressure:g} %" if (pressure or 0) >= HIGH_PRESSURE else ""
    return f"{human_size(available)}{of} free{short}"


def models_line(books: Mapping[str, Any]) -> str:
    """Say what is in memory, of how much, and how often it has changed."""
    return "   ".join(models_in_words(books))


def models_in_words(books: Mapping[str, Any]) -> Iterator[str]:
    """Yield the parts of the line."""
    residents = books["residents"]
    if not books["measured"]:
        yield f"unreconciled{': ' if books['error'] else ''}{books['error']}"
    if residents is not None:
        yield ", ".join(map(resident_in_words, residents)) or "none"
        used = used_in_words([one["memory"] for one in residents])
        yield f"{used} of {human_size(books['usable'])}" if books["usable"] is not None else used
    if books["loading"]:
        yield f"loading {', '.join(books['loading'])}"
    yield count(books["swaps"], "swap")
    if books["load_s"] is not None:
        yield f"last load {duration(books['load_s'])}"


def used_in_words(sizes: Sequence[float | None]) -> str:
    """Say what models take together: "5.2 GB", "at least 5.2 GB" where one is of unknown size."""
    known = [size for size in sizes if size is not None]
    if sizes and not known:
        return "size unknown"
    return f"{'at least ' if len(known) < len(sizes) else ''}{human_size(sum(known))}"


def resident_in_words(model: Mapping[str, Any]) -> str:
    """Say one model, how large it is and who uses it."""
    uses = ["size unknown" if model["memory"] is None else human_size(model["memory"])]
    uses += ["pinned"] if model["pinned"] else []
    uses += ["not ours"] if model["consumer"] else []
    uses += [count(model["jobs"], "job")] if model["jobs"] else []
    return f"{model['name']} ({', '.join(uses)})"


def listed(facts: Mapping[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """Yield the objects of a list."""
    found = facts.get(name)
    yield from (one for one in found if isinstance(one, dict)) if isinstance(found, list) else ()


def number(value: Any) -> Any:
    """Return a figure that code can count on, or None."""
    return value if type(value) in {int, float} and 0 <= value < 1e18 else None


def text(value: Any) -> str:
    """Return a text, "" for anything else."""
    return value if isinstance(value, str) else ""
