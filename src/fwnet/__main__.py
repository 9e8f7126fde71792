"""`python -m fwnet` is the command line."""

from fwnet.cli import main

if __name__ == "__main__":
    main()
