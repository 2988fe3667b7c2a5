"""`cyberos audit`: the ledger itself: its rows, whether they hold together, gaps, other vaults.

Source: DESIGN section 3.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from cyberos.cli import output
from cyberos.cli.checkpoint import check, checkpoint
from cyberos.cli.history import told
from cyberos.core import ledger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from cyberos.core.ledger import Ledger
    from cyberos.doctor.findings import Finding


@click.group(epilog="Example: cyberos audit verify")
def audit() -> None:
    """Look at the ledger, verify it, accept gaps and other vaults."""


audit.add_command(checkpoint)


@audit.command(epilog="Example: cyberos audit show --limit 5")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True, help="How many rows at most.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON: the rows as they stand in the ledger.")
@click.pass_context
def show(ctx: click.Context, *, limit: int, as_json: bool) -> None:
    """Show the newest rows, the newest first."""
    rows = ledger.scan(output.root_of(ctx)).rows[: -limit - 1 : -1]
    if as_json:
        output.document({"items": rows})
        return
    for text in output.table((*told(row)[:4], str(row["payload"].get("path", "")) or told(row)[4]) for row in rows):
        click.echo(text)


@audit.command(
    epilog="""\b
Examples:
  cyberos audit verify && git push
  cyberos audit verify --checkpoint ~/checkpoints/today --allowed-signers ~/.ssh/allowed_signers"""
)
@click.option("--checkpoint", "kept", metavar="FILE", help="Check too that the ledger extends this; - is stdin.")
@click.option("--allowed-signers", metavar="FILE", help="Whose SSH keys may have signed it. Default: anybody's.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def verify(ctx: click.Context, *, kept: str | None, allowed_signers: str | None, as_json: bool) -> int:
    """Check every row's hash, parents, order and transaction; the memories' files are the doctor's to check.

    Exit 1 when the ledger is damaged, or does not extend a checkpoint.
    """
    if allowed_signers and not kept:
        raise click.UsageError("--allowed-signers goes with --checkpoint.")
    root = output.root_of(ctx)
    found = ledger.scan(root)
    extends = check(kept, allowed_signers, found) if kept else []
    findings = sorted(_findings(found, str(root)), key=lambda one: (one.path, one.line))
    heads = [{"hash": row["hash"], "seq": row["seq"]} for row in found.heads]
    if as_json:
        counts = {"rows": len(found.rows), "segments": len(found.segments), "foreign_rows": len(found.foreign)}
        told_findings = [finding._asdict() for finding in findings]
        output.document(
            {"vault": found.vault, "vaults": found.vaults, "heads": heads, **counts, "findings": told_findings}
            | ({"checkpoint": extends} if kept else {})
        )
    else:
        for finding in findings:
            output.note(f"{finding.path}:{finding.line}: {finding.rule} {finding.message}")
        output.line(
            f"vault {found.vault or 'without an id'}: {output.count(len(found.rows), 'row')}"
            f" in {output.count(len(found.segments), 'segment')}"
        )
        for head in heads:
            output.line(f"head {head['hash']} (seq {head['seq']})")
        for text in extends:
            output.line(text)
    return 1 if any(finding.severity == "error" for finding in findings) else 0


def _findings(found: Ledger, root: str) -> Iterator[Finding]:
    from cyberos.doctor import checks_ledger, walker

    damaged = checks_ledger.Damage({}, set(), {})
    yield from checks_ledger.check_faults(found, walker.reader(str(root)), damaged)
    yield from checks_ledger.check_root(found)
    yield from checks_ledger.check_parents(found)
    yield from checks_ledger.check_gaps(found, damaged)
    yield from checks_ledger.check_foreign(found)
    yield from checks_ledger.check_unknown(found)


@audit.command("ack-gap", epilog="Example: cyberos audit ack-gap --reason 'dropped a commit on purpose'")
@click.option("--reason", required=True, help="Why the rows are gone; it stays in the ledger.")
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def ack_gap(ctx: click.Context, *, reason: str, actor: str | None, as_json: bool) -> None:
    """Record that parents which the ledger misses are known to be gone."""
    missing = output.writer_of(ctx).acknowledge_gap(reason, output.actor_of(ctx, actor))
    if as_json:
        output.document({"acknowledged": missing})
    else:
        output.line(
            f"acknowledged {len(missing)} missing rows" if missing else "no row is missing; nothing was written"
        )


@audit.command("adopt", epilog="Example: cyberos audit adopt 3f9c1d2e4b5a6978")
@click.argument("vault", metavar="ID")
@click.option("--actor", help="Who is named in the ledger.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def adopt(ctx: click.Context, *, vault: str, actor: str | None, as_json: bool) -> None:
    """Accept the rows of another vault, by its ID as the doctor names it."""
    writer = output.writer_of(ctx)
    known = sorted({row["vault"] for row in ledger.scan(writer.path).foreign})
    if vault[:16] not in known:
        there = f"the ledger has rows of {', '.join(known)}" if known else "the ledger has no rows of other vaults"
        raise click.UsageError(f"{vault}: {there}.")
    writer.adopt_vault(vault, output.actor_of(ctx, actor))
    answer: dict[str, Any] = {"vault": vault, "seq": writer.head_seq()}
    output.document(answer) if as_json else output.line(f"the rows of vault {vault[:16]} are ours now")
