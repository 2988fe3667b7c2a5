"""A vault's working tree against git: which comparison is asked for, what git says now, and what is kept of it.

Source: DESIGN section 3 ("Against git") and section 5.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from cyberos.core import gitdir, layout, repository
from cyberos.core.repository import Blobs
from cyberos.doctor import anchors, asking, checks_git, knowledge, present, remembered
from cyberos.doctor.findings import Finding, finding

if TYPE_CHECKING:
    from cyberos.core.ledger import Ledger
    from cyberos.core.repository import Repository
    from cyberos.doctor.anchors import Verified
    from cyberos.doctor.asking import Present


class Against(NamedTuple):
    """The repository and what it said when it was asked; without them git did not answer though it is there."""

    repository: Repository | None
    present: Present | None
    anchor: str
    is_full: bool
    verified: Verified | None = None

    @classmethod
    def git(cls, root: str, anchor: str, *, is_full: bool) -> Against | None:
        """Ask git about the vault; None outside git."""
        if gitdir.find(root) is None:
            return None
        found = repository.open_at(root)
        if found is None:
            return cls(None, None, anchor, is_full)
        if is_full:
            return cls(found, None, anchor, is_full)
        answer = asking.ask(found)
        verified = anchors.load_verified(found)  # while git is at it
        return cls(found, answer(), anchor, is_full, verified)

    def looked(self) -> Against:
        """Ask git what it has not been asked yet: for a full examination, which keeps nothing, nobody waits for it."""
        return self if self.present is not None else self.look_again()

    def look_again(self) -> Against:
        """Ask git anew, for what changed meanwhile."""
        return self._replace(present=asking.ask(self.repository)() if self.repository else None)

    def key(self, *, is_new: bool = False) -> bytes | None:
        """Give a digest of all that a report depends on, None when nothing may be kept.

        With `is_new` the commit verified by now counts, without it the one verified at first.
        """
        if self.repository is None or self.present is None or self.is_full:
            return None
        verified = anchors.load_verified(self.repository) if is_new else self.verified
        return remembered.key(self.repository, self.present, self.anchor, verified)

    def unlike(self, ids: dict[str, bytes]) -> dict[str, bytes]:
        """Keep the ids that are not the index's, as far as git has been asked: `compare` needs no others."""
        if self.repository is None or self.present is None:
            return ids
        return {path: ids[path] for path, _ in present.unlike(self.repository, self.present, ids)}

    def compare(self, ids: dict[str, bytes]) -> Against:
        """Hold the ids of the files that were read against the index, in which git trusts their times."""
        if self.repository is None or self.present is None:
            return self
        return self._replace(present=present.compare(self.repository, self.present, ids))

    def check(self, ledger: Ledger) -> list[Finding]:
        """Apply the git rules to a vault whose ledger is this; keep what the next run may ask for."""
        if self.repository is None or self.present is None:
            return [finding("anchor-blind", layout.AUDIT, "git does not answer, so nothing is compared with it")]
        reference = None if self.anchor == "auto" else self.anchor
        with Blobs(self.repository) as blobs:
            judge = checks_git.Judge(self.repository, blobs, ledger)
            found = present.check(judge, self.present, reference=reference, is_full=self.is_full)
        if not self.is_full:
            self._keep(self.repository, self.present, ledger)
        return found

    def _keep(self, git: Repository, now: Present, ledger: Ledger) -> None:
        changed = {path for path in present.dirty(now) if path.startswith(f"{layout.AUDIT}/")}
        tree = git.tree(f"{now.head}:{layout.AUDIT}") if now.head else None
        if tree is None or ledger.faults or any(one.status != "A" and one.path in changed for one in now.staged):
            return
        if all(one.path not in changed for one in now.files):
            knowledge.save(git.root, tree, knowledge.part(ledger, changed))
