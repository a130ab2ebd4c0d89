"""Write the data file of the demo's phrasebook, or check that it's up to date."""

import argparse
import sys

from clearhead.demo.phrasebook import FILE, phrases

from .sentences import compressed, draw, sentences


def main() -> None:
    """Write or check the file."""
    parser = argparse.ArgumentParser(prog="python -m tools.phrasebook", description=__doc__)
    parser.add_argument("--check", action="store_true", help="only check the file; exit with 1 if it's out of date")
    only_check = parser.parse_args().check
    made = sentences(draw())
    if not only_check:
        FILE.write_bytes(compressed(made))
    elif phrases() != made:
        sys.exit(f"{FILE} is out of date. Run: python -m tools.phrasebook")


if __name__ == "__main__":
    main()
