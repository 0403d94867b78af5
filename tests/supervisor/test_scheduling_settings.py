"""The sections [gates], [tiers] and [order]: read, converted, refused in one go."""

from pathlib import Path

import pytest

from policies.gates.vocabulary import Limits
from policies.priority import Aging
from supervisor.application import load_application
from supervisor.errors import ApplicationRefused, SettingsRefused
from supervisor.settings.gates import Scheduling
from supervisor.settings.values import load_settings

APP = """
from supervisor import App

app = App("tiered")


@app.lane("embed", tier="minilm")
def embed(job, ctx):
    yield 1


@embed.lander
def land(db, job, rows):
    pass
"""


SPANS = '[gates] quiet must be spans of the day like ["22:00-07:00", "12:30-14:00"] (two digits each)'
WARM = '[tiers.warm]\nmodel = "warm"\nmemory = "6GB"\npinned = true\n'
BIG = '[tiers.big]\nmodel = "big"\nmemory = '


def scheduling(folder: Path, text: str) -> Scheduling:
    (folder / "supervisor.toml").write_text(text)
    return load_settings(cwd=folder, environ={}).scheduling


def complaints(folder: Path, text: str) -> list[str]:
    with pytest.raises(SettingsRefused) as refused:
        scheduling(folder, text)
    return [line.partition("supervisor.toml: ")[2] for line in refused.value.complaints]


def test_without_any_section_the_defaults_stand(tmp_path: Path) -> None:
    """C60, C80, C134, C136, K12."""
    found = scheduling(tmp_path, "")
    assert found.limits == Limits(presence=300.0, unknown_is_present=True, power=True, power_floor=20.0)
    assert (found.ceiling.usable, found.ceiling.most) == (24_000_000_000, 2)
    assert (found.aging, found.quantum) == (Aging(900.0, 10, 10), 60.0)
    assert set(found.tiers) == {"pinned", "routine", "synthesis", "stretch"}


def test_every_key_is_read_in_its_unit(tmp_path: Path) -> None:
    """SCREENS: the settings file."""
    found = scheduling(
        tmp_path,
        """
        [gates]
        presence = "10m"
        unknown_presence = "away"
        power = false
        power_floor = 12.5
        memory = "16GB"
        memory_reserve = "1GiB"
        quiet = ["22:00-07:00", "12:30-24:00"]
        ollama = "http://127.0.0.1:9999/"
        [order]
        aging = "5m"
        aging_step = 5
        aging_floor = 20
        quantum = "2m"
        [tiers.minilm]
        model = "minilm"
        memory = "1.2GB"
        heavy = true
        window = 512
        """,
    )
    assert found.limits == Limits(
        presence=600.0,
        unknown_is_present=False,
        power=False,
        power_floor=12.5,
        memory_reserve=1 << 30,
        quiet=((1320, 420), (750, 1440)),
    )
    assert (found.ceiling.usable, found.ollama) == (16_000_000_000, "http://127.0.0.1:9999")
    assert (found.aging, found.quantum) == (Aging(300.0, 5, 20), 120.0)
    tier = found.tiers["minilm"]
    assert (tier.model, tier.memory, tier.heavy, tier.window) == ("minilm", 1_200_000_000, True, 512)


def test_a_machine_that_nobody_sits_at_says_so(tmp_path: Path) -> None:
    """OS facts 6: presence = "dedicated"."""
    assert scheduling(tmp_path, '[gates]\npresence = "dedicated"').limits.presence == 0.0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("gates = 1", "gates must be a section like [gates], not 1"),
        ("tiers = 1", "tiers must be sections like [tiers.minilm], not 1"),
        ("[gates]\nprescence = 5", "[gates] has no key 'prescence' (did you mean \"presence\"?)"),
        ("[gates]\npresence = 0", "[gates] presence must be a time over 0 or"),
        ("[gates]\npresence = -1", "[gates] presence must be a time over 0 or"),
        ('[gates]\nunknown_presence = "perhaps"', '[gates] unknown_presence must be "present" or "away"'),
        ("[gates]\npower = 1", "[gates] power must be true or false, not 1"),
        ("[gates]\npower_floor = 101", "[gates] power_floor must be a number from 0 to 100, not 101"),
        ("[gates]\npower_floor = true", "[gates] power_floor must be a number from 0 to 100, not True"),
        ('[gates]\nmemory = "much"', "[gates] memory must be a number of bytes"),
        ('[gates]\nquiet = "22:00-07:00"', f"{SPANS}, not '22:00-07:00'"),
        ('[gates]\nquiet = ["25:00-07:00"]', f"{SPANS}, not '25:00-07:00'"),
        ('[gates]\nquiet = ["22:00-07:00", "9:00-17:00"]', f"{SPANS}, not '9:00-17:00'"),
        ('[gates]\nquiet = ["22:00-24:30", "12:30-14:00"]', f"{SPANS}, not '22:00-24:30'"),
        ('[gates]\nquiet = ["22:00-07:00", 5]', f"{SPANS}, not 5"),
        ('[gates]\nollama = "ftp://here"', "[gates] ollama must be an address like"),
        ("[order]\naging_step = -1", "[order] aging_step must be a whole number from 0 to 1000000, not -1"),
        ("[order]\naging_floor = 1.5", "[order] aging_floor must be a whole number"),
        ("[order]\nquantum = -5", "[order] quantum must be a time, 0 for none"),
        ('[tiers.x]\nmemory = "-1GB"', "[tiers.x] memory must be a whole number of bytes"),
        ("[tiers]\nx = 5", "[tiers.x] must be a section, not 5"),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(tmp_path: Path, text: str, said: str) -> None:
    """LESSONS 63, 64."""
    [line] = complaints(tmp_path, text)
    assert line.startswith(said)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (f'{BIG}"30GB"', "big would make it 30 of 24 GB; lower its memory, or raise memory in [gates]"),
        (
            f'{WARM}{BIG}"20GB"',
            "big beside warm would make it 26 of 24 GB; set evicts_pinned = true, or raise memory in [gates]",
        ),
    ],
)
def test_a_model_that_can_never_be_loaded_is_refused(tmp_path: Path, text: str, said: str) -> None:
    """C136, U28: whatever else goes, there is no room for it."""
    assert complaints(tmp_path, text) == [f"[tiers.big] can never be loaded: {said}"]


@pytest.mark.parametrize("more", [f'{WARM}{BIG}"18GB"', f'{WARM}{BIG}"23GB"\nevicts_pinned = true', WARM])
def test_a_model_that_fits_when_others_go_is_none_of_that(tmp_path: Path, more: str) -> None:
    """C136, U28."""
    assert scheduling(tmp_path, more).tiers["pinned"].model is None


def test_all_that_is_wrong_is_said_at_once(tmp_path: Path) -> None:
    text = '[gates]\npower = 1\nquiet = 5\n[order]\nquantum = "soon"\n[tiers.x]\nmemory = -1\nheavy = 2'
    assert len(complaints(tmp_path, text)) == 5


def test_a_kind_of_a_tier_that_nobody_defined_is_refused_when_the_application_is_loaded(
    tmp_path: Path,
) -> None:
    """Issue: a tier nobody defined."""
    (tmp_path / "tiered.py").write_text(APP)
    (tmp_path / "supervisor.toml").write_text('app = "tiered.py"\n[tiers.minilm2]\nheavy = true')
    with pytest.raises(ApplicationRefused) as refused:
        load_application(load_settings(cwd=tmp_path, environ={}))
    [line] = refused.value.complaints
    assert line == (
        "kind 'embed' is of tier 'minilm', which nobody defined (did you mean \"minilm2\"?);"
        " add a section [tiers.minilm]"
    )


def test_a_kind_that_the_rules_name_has_their_tier_and_priority_until_somebody_says_otherwise(
    tmp_path: Path,
) -> None:
    """C110, C111, C112, C171, U35."""
    (tmp_path / "ruled.py").write_text(APP.replace('"embed", tier="minilm"', '"dream"'))
    (tmp_path / "supervisor.toml").write_text('app = "ruled.py"')
    kinds = load_application(load_settings(cwd=tmp_path, environ={})).kinds
    found = {kind: (one.options.tier, one.options.priority) for kind, one in kinds.items()}
    assert found == {"dream": ("synthesis", 100), "vault_sync": ("pinned", 100)}
    (tmp_path / "supervisor.toml").write_text(
        'app = "ruled.py"\n[kinds.dream]\npriority = 0\ntier = "routine"'
    )
    kinds = load_application(load_settings(cwd=tmp_path, environ={})).kinds
    assert (kinds["dream"].options.tier, kinds["dream"].options.priority) == ("routine", 0)


def test_a_lane_that_starts_over_cannot_yield_to_gates(tmp_path: Path) -> None:
    """K4: it would never be done."""
    (tmp_path / "over.py").write_text(APP.replace('tier="minilm"', 'resume="restart", on_gate="yield"'))
    (tmp_path / "supervisor.toml").write_text('app = "over.py"')
    with pytest.raises(ApplicationRefused, match=r'on_gate = "yield" and resume = "restart"'):
        load_application(load_settings(cwd=tmp_path, environ={}))
