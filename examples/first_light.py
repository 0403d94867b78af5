"""What `make run` shows: index a real folder, search it, and kill a job that hangs.

    python -m examples.first_light

Runs the real commands over the running Python's own standard library, with a store
in `.demo/`, and ends with 0 only if everything came out as it should.
"""

import json
import shlex
import subprocess
import sys
import sysconfig
from pathlib import Path

PROJECT = Path(__file__).resolve().parent.parent
HOME = ".demo"
HUNG = "examples/hung.py"
WORDS = ("lru", "cache")


def main():
    index(sysconfig.get_path("stdlib"))
    search(WORDS)
    prove_the_kill("wedged")
    print("\nall as it should be")


def index(folder):
    done = ask("index", folder)
    found, landed = done["result"], done["landed"]
    passed_over = ", ".join(f"{count:,} {reason}" for reason, count in found["skipped"].items())
    print(f"  files     {found['files']:,} ({found['indexed']:,} indexed, {found['unchanged']:,} unchanged)")
    print(f"            passed over: {passed_over or 'none'}")
    print(f"  chunks    {found['chunks']:,} from {found['bytes'] / 1e6:.1f} MB of text")
    print(f"  batches   {landed['batches']:,} with {landed['rows']:,} rows")
    print(f"  seconds   {done['seconds']:.1f}")
    check(done["outcome"] == "done", f"indexing ended {done['outcome']}")
    check(found["indexed"] + found["unchanged"] > 0, f"no text was found in {folder}")


def search(words):
    hits = ask("search", *words, "--limit", "5")
    for hit in hits:
        print(f"  {hit['path']}:{hit['line']}  {hit['snippet']}")
    check(hits, f"nothing was found for {shlex.join(words)}")


def prove_the_kill(kind):
    job = ask("enqueue", kind, "{}", "--app", HUNG)["id"]
    run("run", "--until-idle", "--app", HUNG)
    run("show", str(job))
    story = ask("show", str(job), echo=False)
    [attempt] = story["attempts"]
    place = f'{HUNG}", line {line_of_the_hang(kind)} in {kind}'
    print(f"  outcome   {attempt['outcome']}, {attempt['kill']['took_ms']} ms after the deadline")
    print(f"  landed    {story['landed']['rows']} row from before the hang")
    print(f"  hung at   {HUNG}:{line_of_the_hang(kind)}")
    check(attempt["outcome"] == "timed_out", f"job {job} ended {attempt['outcome']}, not timed_out")
    check(story["landed"]["rows"] == 1, f"{story['landed']['rows']} rows landed, not 1")
    check(place in attempt["kill"]["stack"], f"the stack does not name {place}")


def line_of_the_hang(kind):
    """Return the number of the line that is marked in the lane's source."""
    lines = (PROJECT / HUNG).read_text("utf-8").splitlines()
    first = lines.index(f"def {kind}(_job, _ctx):")
    return next(n for n, line in enumerate(lines, 1) if n > first and line.endswith("# hangs here"))


def ask(*words, echo=True):
    """Run a command for its JSON; its progress goes to the terminal."""
    return json.loads(run(*words, "--json", echo=echo, stdout=subprocess.PIPE).stdout)


def run(*words, echo=True, **options):
    """Run `supervisor WORDS` on the demonstration's store and return what came of it; its failure is ours."""
    words = (*words, "--home", HOME)
    if echo:
        print(f"\n$ supervisor {shlex.join(words)}", flush=True)
    done = subprocess.run([sys.executable, "-m", "supervisor", *words], cwd=PROJECT, check=False, **options)
    check(done.returncode == 0, f"it exited with {done.returncode}")
    return done


def check(holds, complaint):
    if not holds:
        sys.exit(f"error: {complaint}")


if __name__ == "__main__":
    main()
