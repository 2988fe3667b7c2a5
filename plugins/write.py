"""Write the Claude Code plugin of this repository from what `cyberos init --agent claude-code` adds: `make plugin`."""

from pathlib import Path

from cyberos.agents.clients import plugin
from cyberos.cli.version import __version__

TOP = Path(__file__).parents[1]

for path, text in plugin(__version__).items():
    (TOP / path).parent.mkdir(parents=True, exist_ok=True)
    (TOP / path).write_text(text, encoding="utf-8")
