"""`python -m app`: the operator's commands."""

from app.cli import main

main()
