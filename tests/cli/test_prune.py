"""`supervisor prune`: whole ended jobs go, and nothing else."""

from landing.connect import store_path
from tests.cli.shell import Shell


def furnish(project: Shell) -> None:
    """Leave a done, a failed, a skipped, a cancelled and a queued job."""
    project("enqueue", "square", "--lines", "-", "--tag", "a", stdin=b'{"count": 3}\n{}\n')
    project("run", "--until-idle")
    project("enqueue", "square", "--lines", "-", "--tag", "b", stdin=b"{}\n{}\n{}\n")
    project("skip", "3")
    project("cancel", "4")


def left(project: Shell) -> list[int]:
    return sorted(job["id"] for job in project("jobs", "--json").json)


def test_what_is_done_skipped_or_cancelled_goes_and_what_failed_only_when_it_is_named(project: Shell) -> None:
    """B26, U33, C95."""
    furnish(project)
    assert project("prune", "--older-than", "0", "--dry-run").out == "3 jobs would go\n"
    assert left(project) == [1, 2, 3, 4, 5]
    assert project("prune", "--older-than", "1d").out == "0 jobs and 0 attempts are gone; 0 MB given back\n"
    done = project("prune", "--older-than", "0", "--json")
    assert done.json.items() >= {"jobs": 3, "attempts": 1}.items()
    assert done.json.keys() == {"jobs", "attempts", "mb"}
    assert left(project) == [2, 5]
    assert project("prune", "--older-than", "0s", "--state", "failed", "--dry-run", "--json").json == {
        "jobs": 1
    }
    assert project("prune", "--older-than", "0s", "--state", "failed").out.startswith(
        "1 job and 1 attempt are gone"
    )
    assert left(project) == [5]
    assert project.refused("show", "2", code=1) == "no job #2"


def test_a_prune_keeps_to_its_kind_and_tag(project: Shell) -> None:
    furnish(project)
    assert project("prune", "--older-than", "0", "--kind", "other").out.startswith("0 jobs")
    assert project("prune", "--older-than", "0", "--tag", "b", "--dry-run", "--json").json == {"jobs": 2}
    assert project("prune", "--older-than", "0", "--tag", "b", "--json").json["jobs"] == 2
    assert left(project) == [1, 2, 5]


def test_the_file_gets_smaller(project: Shell) -> None:
    """DESIGN section 4: pages are given back, not only freed."""
    big = b'"' + b"x" * 100_000 + b'"\n'
    project("enqueue", "square", "--lines", "-", stdin=big * 60)
    project("cancel", "--kind", "square")
    before = store_path(project.home).stat().st_size
    gone = project("prune", "--older-than", "0", "--json").json
    after = store_path(project.home).stat().st_size
    assert (gone["jobs"], gone["attempts"]) == (60, 0)
    assert 5.0 < gone["mb"] <= (before - after) / 1e6 + 0.3
    assert after < 1_000_000 < before


def test_how_old_must_be_said_and_only_what_has_ended_can_be_named(project: Shell) -> None:
    """K15."""
    assert "Missing option '--older-than'" in project.refused("prune", code=2)
    assert "'soon' is no duration" in project.refused("prune", "--older-than", "soon", code=2)
    refused = project.refused("prune", "--older-than", "0", "--state", "running", code=2)
    assert "'running' is not one of" in refused
    for words in ((), ("--dry-run",)):
        assert project.refused("prune", "--older-than", "0", *words, code=1).startswith("no store in ")
