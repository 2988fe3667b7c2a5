"""`python -m cyberos`."""

from cyberos.cli.start import entry

if __name__ == "__main__":
    entry()
