"""`cyberos search`: memories of any kind that mean what a query means. Prints what `cyberos recall` prints.

Source: DESIGN section 6.
"""

from __future__ import annotations

from typing import Any

import click

from cyberos.cli import full_text
from cyberos.core.backends import SEMANTIC


@click.command(
    epilog="""\b
Examples:
  cyberos search "how do we ship a release"
  cyberos search "people who know the billing code" --kind people --json"""
)
@full_text.options
@click.pass_context
def search(ctx: click.Context, /, **given: Any) -> None:
    """Find memories of any kind by the meaning of QUERY and by its words, best first.

    Without an embedder words alone are compared, and the answer says so. Finding none is no error.
    """
    full_text.show(ctx, **given, backend=SEMANTIC)
