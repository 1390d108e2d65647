"""Run the command line for `python -m onward`."""

from onward.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
