"""A signed checkpoint is the witness for what even git cannot show any more."""

from __future__ import annotations

import io
import subprocess
from contextlib import redirect_stderr, redirect_stdout

from cyberos.cli import main as command_line
from cyberos.core.episode import log
from cyberos.core.writer import Writer
from prove.table import folder, promise, share
from prove.tampering import Book, attack, grown
from prove.tools import on_path
from support import episode


@promise("a signed checkpoint is held by the ledger that extends it, and by no other")
def checkpoints(scale: float) -> tuple[str, bool]:
    on_path("ssh-keygen")
    with folder() as top:
        repo = grown(top / "repo", share(200, scale) + 2)
        key, allowed, kept = top / "key", top / "allowed", top / "kept"
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(key)], check=True)
        allowed.write_text(f"ada@example.org {key.with_suffix('.pub').read_text()}")

        def audit(*arguments: object) -> tuple[int, str]:
            said = io.StringIO()
            with redirect_stdout(said), redirect_stderr(io.StringIO()):
                code = command_line.main(["--store", str(repo.root), "audit", *map(str, arguments)])
            return code, said.getvalue()

        def holds() -> bool:
            return audit("verify", "--checkpoint", kept, "--allowed-signers", allowed)[0] == 0

        kept.write_text(audit("checkpoint", "--sign", "--key", key)[1], encoding="utf-8")
        book = Book(repo.root)
        log(Writer(repo.root), episode("later"))
        assert holds(), "the ledger has only grown"
        later = Book(repo.root)
        wrong, done = [], 0
        for name in ("cut off", "rewritten", "deleted"):
            for number in range(1, len(book.lines), 1 if scale == 1 else 5):
                taken = attack(later, name, number)
                done += 1
                wrong += [f"{name} {number}"] * holds()
                for path, blob in taken.items():
                    path.write_bytes(blob)
                later.restore()
        text = kept.read_text(encoding="utf-8")
        for place in range(0, len(text), 1 if scale == 1 else 40):
            kept.write_text(text[:place] + ("0" if text[place] != "0" else "1") + text[place + 1 :], encoding="utf-8")
            done += 1
            wrong += [f"character {place} of it"] * holds()
        kept.write_text(text, encoding="utf-8")
        assert holds()
    return f"{done:,} changes of ledger or checkpoint, {len(wrong)} unseen {wrong[:3] or ''}", not wrong
