"""Models in memory: `loader` and `ollama` know who holds them, `books` compares, asks and counts."""
