"""`python -m metalcore`: the command line, where the `metalcore` command is not on the path."""

from metalcore.tools.cli import main

main()
