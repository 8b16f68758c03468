"""`python -m controller.cli` is `arl`."""

from controller.cli import main

if __name__ == "__main__":
    main()
