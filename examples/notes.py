"""A folder of Markdown notes, line by line, in a table; interrupted anywhere, it goes on where it was.

supervisor enqueue index '{"root": "docs"}' --app examples/notes.py
supervisor run --until-idle --app examples/notes.py
"""

from pathlib import Path

from supervisor import App

app = App("notes")
app.migration(1, "CREATE TABLE notes (path TEXT, n INT, text TEXT, PRIMARY KEY (path, n)) WITHOUT ROWID")


@app.lane("index", batch_deadline=30, resume="replay")
def index(job, ctx):  # the compute half: runs in the child, opens no store
    for path in sorted(map(str, Path(job.payload["root"]).rglob("*.md"))):
        if ctx.resume and path <= ctx.resume:
            continue  # landed before the interruption
        for n, text in enumerate(Path(path).read_text("utf-8").splitlines(), 1):
            yield path, n, text  # a row: tuple, dict or msgspec.Struct
        ctx.checkpoint(path)  # everything up to here is complete


@index.lander
def land(db, _job, rows):  # runs in the supervisor, inside the landing transaction
    db.executemany("INSERT OR REPLACE INTO notes VALUES (?, ?, ?)", rows)
