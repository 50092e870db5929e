"""`python -m gafixer`."""

from gafixer.cli import main

if __name__ == "__main__":
    main()
