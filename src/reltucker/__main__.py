"""`python -m reltucker`: the command line, where the script `reltucker` is not on the path."""

from reltucker.cli import main

main()
