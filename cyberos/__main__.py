"""`python -m cyberos`."""

from cyberos.cli.main import entry

if __name__ == "__main__":
    entry()
