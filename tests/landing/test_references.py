"""Foreign keys of applications to the store's tables, which would break or misuse its prunes (SPEC U33)."""

import pytest

from landing.errors import StoreError
from landing.migrate import MigrateApp, RefuseReferences
from landing.transaction import Transaction
from tests.landing.stand import Stand

REFERRING = [
    "CREATE TABLE one (job INT REFERENCES laneway_jobs (id))",
    "CREATE TABLE one (job INT REFERENCES LANEWAY_JOBS ON DELETE CASCADE)",
    "CREATE TABLE one (job INT, FOREIGN KEY (job) REFERENCES laneway_jobs DEFERRABLE INITIALLY DEFERRED)",
    "CREATE TABLE one (run INT REFERENCES laneway_runs (id) ON DELETE SET NULL)",
    "CREATE TABLE two (x); ALTER TABLE two ADD COLUMN job REFERENCES laneway_jobs (id);"
    " ALTER TABLE two RENAME TO one",
]


@pytest.mark.parametrize("script", REFERRING)
def test_a_table_that_refers_to_the_stores_is_refused_by_number_name_and_remedy(
    stand: Stand, script: str
) -> None:
    """U33: with it no job could be pruned any more, or its rows would go with the job."""
    scripts = ["CREATE TABLE first (x)", script]
    with pytest.raises(StoreError) as refused:
        stand.write(MigrateApp("other", scripts))
    parent = "laneway_runs" if "laneway_runs" in script else "laneway_jobs"
    assert str(refused.value) == (
        f"app 'other': migration 2 makes table 'one' refer to {parent},"
        " which the store must be free to prune; keep the id in a plain column"
    )
    assert stand.query("SELECT name FROM sqlite_master WHERE name IN ('one', 'two', 'first')") == []


def test_a_later_script_may_mend_what_an_earlier_one_refers_to(stand: Stand) -> None:
    """U33: scripts that ran somewhere are never edited."""
    mended = "DROP TABLE one; CREATE TABLE one (job INT)"
    assert stand.write(MigrateApp("other", [REFERRING[0], mended])) == 2


def test_tables_may_refer_to_each_other(stand: Stand) -> None:
    scripts = ["CREATE TABLE one (id INTEGER PRIMARY KEY); CREATE TABLE laneways (one REFERENCES one (id))"]
    assert stand.write(MigrateApp("other", scripts)) == 1


def test_a_table_that_a_lander_made_so_is_refused_at_the_next_start(stand: Stand) -> None:
    """U33: no script has made it."""

    class Makes:
        def apply(self, tx: Transaction) -> None:
            tx.run(REFERRING[0])

    stand.write(Makes())
    with pytest.raises(StoreError, match=r"table 'one' refers to laneway_jobs.*; add a migration"):
        stand.write(RefuseReferences())
    assert stand.write(MigrateApp("another", ["CREATE TABLE two (x)"])) == 1, "it is none of its making"
    stand.write(MigrateApp("other", ["DROP TABLE one"]))
    stand.write(RefuseReferences())
