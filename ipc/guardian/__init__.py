"""The guardian: see __main__."""
