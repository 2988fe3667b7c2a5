"""`cyberos config`: every setting, its value, and where that comes from.

Source: DESIGN section 10.
"""

from __future__ import annotations

import json

import click

from cyberos.cli import output
from cyberos.core import settings


@click.command(epilog="Example: CYBEROS_RECENCY=park cyberos config")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def config(ctx: click.Context, *, as_json: bool) -> None:
    """Show every setting, its value and its source.

    A flag wins, then CYBEROS_<NAME>, cyberos.toml, [tool.cyberos] in pyproject.toml, and the default.
    """
    found = settings.load(output.root_of(ctx))
    items = [
        {"name": name, "value": value.value, "source": value.source, "description": settings.SETTINGS[name].description}
        for name, value in found.items()
    ]
    if as_json:
        output.document({"items": items})
        return
    for text in output.table(
        (item["name"], json.dumps(item["value"]), item["source"], item["description"]) for item in items
    ):
        click.echo(text)
