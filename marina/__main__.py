"""`python -m marina` is the command `marina`."""

from marina.cli import main

main()
