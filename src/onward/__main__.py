"""`python -m onward` is the command line."""

from onward.cli.main import main

__all__: list[str] = []

if __name__ == "__main__":
    main()
