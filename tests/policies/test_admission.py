"""What a claim asks about a head, beside the gates themselves."""

from dataclasses import replace

import pytest

from policies.admission import Admission, rule_of
from policies.gates.vocabulary import CHOSEN, Gate, Limits
from policies.identity import exclusive_of
from policies.job import Head
from policies.options import complaint_about, options_from
from policies.readings import Power, PowerReading, Readings
from policies.routing import BUILT_IN, Tier

PLAIN = options_from({})
MINILM = Tier("minilm", model="minilm", memory=1_000_000_000, loader="ollama")
TIERS = {**BUILT_IN, "minilm": MINILM}
MAINS = Readings(power=PowerReading(Power.MAINS, None, "a plug"))


def test_a_tier_whose_model_was_refused_waits_until_that_changes() -> None:
    """C137, U29: the group waits, so that one deferred row is enough."""
    refused = {"minilm": "ceiling: no room"}
    admission = Admission(
        kinds={"embed": PLAIN}, tiers=TIERS, limits=Limits(), readings=MAINS, refused=refused
    )
    ask = admission((), {})
    [blocked] = ask(Head(1, "embed", 50, 0, "minilm"))
    assert (blocked.gate, blocked.text) == (Gate.MODEL, "ceiling: no room")
    assert ask(Head(2, "embed", 50, 0)) == ()


@pytest.mark.parametrize(
    ("options", "tier", "gates"),
    [
        ({}, "routine", set()),
        ({}, "synthesis", set(CHOSEN)),
        ({"gates": ["power"]}, "synthesis", {Gate.POWER}),
        ({"gates": []}, "synthesis", set()),
        ({"memory_limit": 10**9}, "routine", {Gate.MEMORY}),
        ({}, "minilm", set()),
    ],
)
def test_a_kind_has_the_gates_that_it_lists_or_those_of_its_tier(
    options: dict[str, object], tier: str, gates: set[Gate]
) -> None:
    """U27, C63: a server's models go by the ceiling, not by free memory."""
    assert rule_of("embed", options_from(options), TIERS[tier]).gates == gates


def test_readings_are_needed_for_the_tier_that_a_job_has() -> None:
    """C62: and for none that nobody goes by."""
    admission = Admission(kinds={"embed": PLAIN}, tiers=TIERS, limits=Limits())
    assert admission.depends_on([("embed", "")]) == frozenset()
    assert admission.depends_on([("embed", "synthesis")]) == {"presence", "power", "memory"}


def test_what_a_kind_asks_of_the_gates_is_worked_out_once() -> None:
    """U27: claims, grants and yields all ask, again and again for each job in flight."""
    admission = Admission(kinds={"embed": PLAIN}, tiers=TIERS, limits=Limits())
    later = replace(admission, promised=1)
    assert later.rule("embed", "minilm") is admission.rule("embed", "minilm")
    assert admission.rule("embed", "minilm") is not admission.rule("embed", "synthesis")


@pytest.mark.parametrize(
    ("payload", "field", "found"),
    [
        ('{"path": "a"}', "path", 'embed "a"'),
        ('{"path": {"b": 1, "a": 2}}', "path", 'embed {"a":2,"b":1}'),
        ('{"path": "a"}', "", None),
        ('{"path": "a"}', "other", None),
        ("[1]", "path", None),
    ],
)
def test_what_a_job_may_not_run_beside_is_one_field_of_its_payload(
    payload: str, field: str, found: str | None
) -> None:
    """U37."""
    assert exclusive_of("embed", payload, field) == found


def test_what_a_job_may_not_run_beside_is_bounded() -> None:
    found = exclusive_of("embed", '{"path": "%s"}' % ("x" * 10_000), "path")
    assert found is not None
    assert len(found) < 100


@pytest.mark.parametrize(
    ("name", "value"), [("tier", 5), ("tier", "x" * 200), ("exclusive_by", "a\nb"), ("gates", ["lunch"])]
)
def test_a_name_that_is_none_is_refused(name: str, value: object) -> None:
    """LESSONS 63."""
    complaint = complaint_about(name, value)
    assert complaint is not None
    assert complaint.startswith(name)
