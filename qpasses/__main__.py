"""``python -m qpasses``: the command line."""

from qpasses.cli import main

main()
