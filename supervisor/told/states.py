"""States as people read them; JSON has the exact ones."""


def state_in_words(state: str) -> str:
    """Say a state: "failed (optional)" is one that holds up nobody."""
    return "failed (optional)" if state == "failed_optional" else state
