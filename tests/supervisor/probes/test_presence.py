"""Whether the owner is there, asked of made-up buses that answer, refuse, hang and lie over real sockets."""

import os
from dataclasses import replace
from math import inf
from typing import Any

import pytest

from supervisor.probes.presence import Desk
from supervisor.sensors import now_micros
from tests.supervisor.probes.conftest import Room
from tests.supervisor.probes.peer import HANG, KDE, LOGIND, MUTTER, UNKNOWN_OBJECT, Peer, hang_up

IDLE = MUTTER, "GetIdletime"
KDE_IDLE = KDE, "GetSessionIdleTime"
UNDERSTOOD = "a(susso)"


def milliseconds(count: int) -> tuple[str, tuple[int]]:
    return "t", (count,)


# --- who counts the input


@pytest.mark.parametrize("shown_by", ["x11", "wayland"])
def test_mutter_tells_since_when_nobody_has_touched_anything(room: Room, shown_by: str) -> None:
    """C60: milliseconds, on X11 and on Wayland."""
    room.logind.login("2", room.uid, shown_by)
    room.own_bus().answers[IDLE] = milliseconds(412_500)
    found = room.look()
    assert (found.idle_s, found.source, found.inhibited) == (412.5, "Mutter, session 2", False)


def test_who_was_active_a_moment_ago_is_there_and_nobody_else_is_asked(room: Room) -> None:
    """C60."""
    room.logind.login("2", room.uid, "wayland")
    room.own_bus().answers[IDLE] = milliseconds(1200)
    assert room.look().idle_s == 1.2
    assert (LOGIND, "ListInhibitors") not in room.logind.asked


def test_a_terminal_that_is_typed_at_spares_the_buses(room: Room) -> None:
    """C60."""
    room.typed = (8.0, "/dev/pts/3")
    found = room.look()
    assert (found.idle_s, found.source) == (8.0, "terminal /dev/pts/3")
    assert room.logind.asked == []


def test_kde_counts_milliseconds_on_x11(room: Room) -> None:
    room.logind.login("2", room.uid, "x11")
    room.own_bus().answers[KDE_IDLE] = ("u", (600_000,))
    found = room.look()
    assert (found.idle_s, found.source) == (600.0, "KDE, session 2")


def test_kde_is_not_asked_on_wayland_where_it_counts_nothing(room: Room) -> None:
    """C61, U28."""
    room.logind.login("2", room.uid, "wayland")
    bus = room.own_bus()
    bus.answers[KDE_IDLE] = ("u", (600_000,))
    assert room.look().idle_s is None
    assert KDE_IDLE not in bus.asked


def test_a_locked_session_is_idle_where_nothing_counts_its_input(room: Room) -> None:
    room.logind.login("2", room.uid, "wayland", LockedHint=("b", True))
    found = room.look()
    assert (found.idle_s, found.source) == (inf, "session 2 is locked")


def test_who_types_at_a_locked_screen_is_there(room: Room) -> None:
    room.logind.login("2", room.uid, "wayland", LockedHint=("b", True))
    room.own_bus().answers[IDLE] = milliseconds(2000)
    assert room.look().idle_s == 2.0


def test_the_one_who_left_last_counts(room: Room) -> None:
    room.typed = (700.0, "/dev/pts/3")
    room.logind.login("2", room.uid, "wayland")
    room.own_bus().answers[IDLE] = milliseconds(900_000)
    room.logind.login("5", room.uid + 1, "wayland", LockedHint=("b", True))
    assert room.look().idle_s == 700.0


def test_one_screen_that_nobody_answers_for_leaves_the_whole_in_doubt(room: Room) -> None:
    """C61, U28."""
    room.logind.login("2", room.uid, "wayland")
    room.own_bus().answers[IDLE] = milliseconds(900_000)
    room.logind.login("5", room.uid + 1, "wayland")
    found = room.look()
    assert (found.idle_s, found.source) == (None, "nothing counts the input of session 5 (wayland)")


def test_the_other_bus_of_another_user_is_asked_as_well(room: Room) -> None:
    room.logind.login("5", room.uid + 1, "wayland")
    room.own_bus(room.uid + 1).answers[IDLE] = milliseconds(2000)
    assert room.look().idle_s == 2.0


def test_being_asked_starts_no_service(room: Room) -> None:
    room.logind.login("2", room.uid, "x11")
    bus = room.own_bus()
    room.look()
    assert {IDLE, KDE_IDLE} <= set(bus.asked)
    assert bus.started == room.logind.started == []


# --- who is logged in


def test_nobody_at_all_is_an_infinite_time(room: Room) -> None:
    found = room.look()
    assert (found.idle_s, found.source) == (inf, "nobody is logged in")


def test_greeters_and_sessions_about_to_end_are_nobody(room: Room) -> None:
    room.logind.login("c1", 120, "wayland", Class=("s", "greeter"))
    room.logind.login("3", room.uid, "x11", State=("s", "closing"))
    room.logind.login("4", room.uid, "unspecified", Class=("s", "manager"))
    assert room.look().source == "nobody is logged in"


def test_a_session_that_ends_while_it_is_looked_at_is_nobody(room: Room) -> None:
    room.logind.tell("9", UNKNOWN_OBJECT)
    assert room.look().source == "nobody is logged in"


def test_a_login_on_a_console_goes_by_its_terminal_and_never_by_its_idle_hint(room: Room) -> None:
    moment = now_micros() / 1e6 - 20
    os.utime(room.file("dev/tty3"), (moment, moment))
    room.logind.login("3", room.uid, "tty", TTY=("s", "tty3"), IdleHint=("b", True))
    found = room.look()
    assert found.idle_s == pytest.approx(20, abs=5)
    assert found.source == "terminal /dev/tty3"


def test_a_compositor_started_on_a_console_must_be_answered_for(room: Room) -> None:
    """C61, U28: its terminal is idle while it is in use."""
    room.logind.login("3", room.uid, "tty", TTY=("s", "tty3"))
    os.utime(room.file("dev/tty3"), (0, 0))
    room.file(f"user/{room.uid}/wayland-1")
    found = room.look()
    assert (found.idle_s, found.source) == (None, "nothing counts the input of session 3 (wayland)")


def test_an_x_server_started_on_a_console_is_asked(room: Room) -> None:
    """C61, U28."""
    room.logind.login("3", room.uid, "tty")
    room.file("X11/X7")
    assert room.look().source == "nothing counts the input of session 3 (x11)"


# --- no logind


def without_logind(room: Room, **environment: str) -> Desk:
    told = Desk.of({"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={room.folder}/nothing", **environment}, room.uid)
    return replace(told, runtime=room.desk.runtime, x_sockets=room.desk.x_sockets, devices=room.desk.devices)


UNASKED = "; logind was not asked, there is none"


def test_without_a_bus_a_screen_or_a_terminal_nobody_is_there(room: Room) -> None:
    """U28: and it is said that logind was not asked."""
    room.desk = without_logind(room)
    found = room.look()
    assert (found.idle_s, found.source) == (inf, f"nobody is at a terminal{UNASKED}")


def test_without_logind_the_terminal_that_was_left_last_is_told_with_that(room: Room) -> None:
    room.desk = without_logind(room)
    room.typed = (700.0, "/dev/pts/3")
    assert room.look().source == f"terminal /dev/pts/3{UNASKED}"


@pytest.mark.parametrize("ago", [20, 600])
def test_without_logind_an_owner_at_a_console_is_seen_by_it(room: Room, ago: int) -> None:
    """C60, C61."""
    room.desk = without_logind(room)
    typed = room.person_at("dev/tty1", ago)
    found = room.look()
    assert found.idle_s == pytest.approx(now_micros() / 1e6 - typed, abs=5)
    assert found.source == f"terminal /dev/tty1{UNASKED}"


def test_with_logind_the_consoles_that_it_does_not_name_are_nobodys(room: Room) -> None:
    room.person_at("dev/tty1", 20)
    assert room.look().source == "nobody is logged in"


def test_a_logind_that_does_not_answer_spares_nobody_at_a_console(room: Room) -> None:
    """C60, C62: and it is not said that there is none."""
    room.logind.answers[LOGIND, "ListSessions"] = "org.freedesktop.DBus.Error.AccessDenied"
    room.person_at("dev/tty1", 20)
    assert room.look().source == "terminal /dev/tty1"


@pytest.mark.parametrize(
    "environment",
    [
        {"DISPLAY": ":77"},
        {"DISPLAY": ":77", "XDG_SESSION_TYPE": "x11"},
        {"WAYLAND_DISPLAY": "wayland-0"},
        {"DISPLAY": ":77", "WAYLAND_DISPLAY": "wayland-0", "XDG_SESSION_TYPE": "wayland"},
    ],
)
def test_a_screen_in_the_environment_that_nobody_answers_for_is_a_doubt(
    room: Room, environment: dict[str, str]
) -> None:
    """C61, U28."""
    room.desk = without_logind(room, **environment)
    assert room.look().idle_s is None


def test_kde_is_believed_by_the_environment_only_where_it_says_x11(room: Room) -> None:
    """C61, U28."""
    bus = room.own_bus()
    bus.answers[KDE_IDLE] = ("u", (600_000,))
    told = {"DISPLAY": ":77", "DBUS_SESSION_BUS_ADDRESS": bus.address}
    room.desk = without_logind(room, **told)
    assert room.look().idle_s is None
    room.desk = without_logind(room, **told, XDG_SESSION_TYPE="x11")
    assert room.look().idle_s == 600.0


def test_a_screen_that_ssh_lends_is_none_of_this_machine(room: Room) -> None:
    room.desk = without_logind(room, DISPLAY="localhost:10.0")
    assert room.look().idle_s == inf


def test_a_screen_that_logind_does_not_know_must_be_answered_for(room: Room) -> None:
    """C61, U28."""
    room.desk = replace(room.desk, display=":77", has_screen=True)
    assert room.look().source == "nothing counts the input of session of this process (of unknown kind)"


def test_a_logind_that_answered_and_is_gone_is_a_doubt_and_not_an_empty_machine(room: Room) -> None:
    """C61, U28."""
    probe = room.probe()
    assert probe().idle_s == inf
    room.logind.close()
    (room.folder / "system_bus").unlink()
    found = probe()
    assert found.idle_s is None
    assert found.source.startswith("there is no bus at unix:path=")


# --- hanging and lying


@pytest.mark.parametrize("method", ["ListSessions", "GetAll", "ListInhibitors"])
def test_a_logind_that_hangs_is_a_doubt(room: Room, method: str) -> None:
    """C61, C62, U28."""
    room.logind.login("2", room.uid, "wayland", LockedHint=("b", True))
    room.logind.answers[LOGIND, method] = HANG
    found = room.look()
    assert (found.idle_s, found.source) == (None, "org.freedesktop.login1 did not answer in 1 s")


def test_a_bus_that_never_greets_is_a_doubt(room: Room) -> None:
    """C61, C62, U28."""
    mute = Peer(room.folder / "mute", greets=False)
    room.peers.append(mute)
    room.desk = replace(room.desk, system_bus=mute.address)
    assert room.look().idle_s is None


def test_a_bus_that_lets_in_and_says_nothing_more_is_a_doubt(room: Room) -> None:
    """C61, C62, U28."""
    room.logind.answers["org.freedesktop.DBus", "Hello"] = HANG
    found = room.look()
    assert (found.idle_s, found.source) == (None, "org.freedesktop.DBus did not answer in 1 s")


def test_a_mutter_that_hangs_is_a_doubt(room: Room) -> None:
    """C61, C62, U28."""
    room.logind.login("2", room.uid, "wayland")
    room.own_bus().answers[IDLE] = HANG
    assert room.look().idle_s is None


@pytest.mark.parametrize(
    "answer",
    [
        ("s", ("long ago",)),
        ("x", (-5,)),
        ("b", (True,)),
        ("d", (4e9,)),
        ("tt", (1, 2)),
        ("", ()),
        "org.freedesktop.DBus.Error.NotSupported",
        b"this is no message of a bus at all",
        b"\0" * 5000,
    ],
)
def test_what_mutter_cannot_mean_is_a_doubt(room: Room, answer: Any) -> None:
    """C61, C62, U28."""
    room.logind.login("2", room.uid, "wayland")
    room.own_bus().answers[IDLE] = answer
    assert room.look().idle_s is None


@pytest.mark.parametrize(
    "answer",
    [
        ("s", ("nobody",)),
        ("a(s)", ([("2",)],)),
        (UNDERSTOOD, ([("2", 1000, "ada", "seat0", "/org/freedesktop/login1/session/2")] * 20_000,)),
        "org.freedesktop.DBus.Error.AccessDenied",
        b"\xff" * 64,
        b"l\1\0\1" + b"\xff" * 4000,
    ],
)
def test_what_logind_cannot_mean_is_a_doubt(room: Room, answer: Any) -> None:
    """C61, C62, U28: an endless answer is cut off."""
    room.logind.answers[LOGIND, "ListSessions"] = answer
    assert room.look().idle_s is None


@pytest.mark.parametrize(
    "properties", [{}, {"Class": ("s", "user"), "State": ("s", "active")}, {"Class": ("u", 7)}]
)
def test_a_session_whose_properties_are_missing_is_a_doubt(room: Room, properties: dict[str, Any]) -> None:
    """C61, U28."""
    room.logind.tell("2", ("a{sv}", (properties,)))
    found = room.look()
    assert found.idle_s is None
    assert found.source.startswith("logind is not understood: ")


def test_a_bus_that_hangs_up_in_the_middle_is_a_doubt(room: Room) -> None:
    """C61, C62, U28."""
    room.logind.login("2", room.uid, "wayland")
    bus = room.own_bus()
    bus.answers[IDLE] = hang_up
    assert room.look().idle_s is None


def test_terminals_that_cannot_be_listed_are_a_doubt(room: Room) -> None:
    """C61, C62, U28."""
    room.file("dev/pts")
    found = room.probe().__class__(room.desk, 300.0)()
    assert (found.idle_s, found.source) == (None, "the terminals cannot be listed: Not a directory")


# --- who asks not to be treated as idle


@pytest.fixture
def away(room: Room) -> Peer:
    """An owner whose desktop says that nobody has touched it for an hour."""
    room.logind.login("2", room.uid, "wayland")
    bus = room.own_bus()
    bus.answers[IDLE] = milliseconds(3_600_000)
    return bus


def test_who_watches_a_film_is_told_as_inhibited(room: Room, away: Peer) -> None:
    room.logind.inhibited(("sleep", "NetworkManager", "delay"), ("sleep:idle", "a player", "block"))
    found = room.look()
    assert (found.idle_s, found.inhibited) == (3600.0, True)
    assert found.source == "a player asks not to be treated as idle"


@pytest.mark.parametrize(
    "inhibitor", [("idle", "one that only delays", "delay"), ("sleep", "backup", "block")]
)
def test_inhibitors_of_other_things_do_not_count(
    room: Room, away: Peer, inhibitor: tuple[str, str, str]
) -> None:
    room.logind.inhibited(inhibitor)
    assert not room.look().inhibited


@pytest.mark.parametrize(
    ("call", "desktop"),
    [
        (("org.gnome.SessionManager", "IsInhibited"), "GNOME"),
        (("org.freedesktop.PowerManagement.Inhibit", "HasInhibit"), "KDE"),
    ],
)
def test_the_desktops_own_inhibitors_count(
    room: Room, away: Peer, call: tuple[str, str], desktop: str
) -> None:
    away.answers[call] = ("b", (True,))
    found = room.look()
    assert (found.inhibited, found.source) == (True, f"{desktop} is asked not to be idle")
    away.answers[call] = ("b", (False,))
    assert not room.look().inhibited
    away.answers[call] = "org.freedesktop.DBus.Error.UnknownMethod"
    assert room.look().idle_s == 3600.0


def test_a_desktop_that_does_not_say_who_inhibits_is_a_doubt(room: Room, away: Peer) -> None:
    """C61, C62, U28."""
    away.answers["org.gnome.SessionManager", "IsInhibited"] = HANG
    assert room.look().idle_s is None
