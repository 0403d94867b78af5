"""A lane whose children take as long to import this file as there is another beside it, named `hang`."""

import time
from pathlib import Path
from typing import Any

from supervisor import App, Context, Job, Landing, Rows

HANG = Path(__file__).with_name("hang")

while HANG.exists():
    time.sleep(0.01)

app = App("slow")


@app.lane("modelled", spawn="cold", tier="minilm")
def modelled(job: Job[dict[str, Any]], ctx: Context) -> Any:
    """Yield a row."""
    yield (1,)


@modelled.lander
def land(db: Landing, job: Job[dict[str, Any]], rows: Rows[tuple[int]]) -> None:
    """Keep nothing."""
