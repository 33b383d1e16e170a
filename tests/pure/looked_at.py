"""Which rules' excerpts are tested where, so that together they are all."""

IN_TABLE = {
    *("PK101", "PK102", "PK103", "PK104", "PK201", "PK202", "PK203", "PK204", "PK205", "PK206"),
    *("PK211", "PK218", "PK303", "PK304", "PK306"),
}
"""Rules of which tests/diverging has findings; tests/compiled/test_signals_of_builds.py has the others."""
