"""Random work in a repository, with a count of the rows kept beside git: none lost, none twice, none from nowhere.

The count: what each commit holds, and what the working tree holds beyond its commit. Git may refuse a step because
a local change would be overwritten; then nothing may have changed. It may never stop at a conflict, but for the one
that ADR 0006 tells of: `guessed` counts the cherry-picks in which git took a folder for renamed.
"""

from __future__ import annotations

import random
import subprocess

from support import Repo, fact

REFUSALS = ("would be overwritten", "cannot rebase", "cannot cherry-pick", "cannot pull", "local changes")


class Walk:
    """One random walk. `held` maps commits to their rows; `tree` is what the working tree holds."""

    def __init__(self, repo: Repo, seed: int) -> None:
        self.repo = repo
        self.random = random.Random(seed)
        self.held = {repo.head: repo.hashes()}
        self.base = repo.head
        self.tree = repo.hashes()
        self.count = 0
        self.done: list[str] = []
        self.refused = self.guessed = 0
        self.second: Repo | None = None

    # what may happen

    def put(self):
        self.count += 1
        if self.random.random() < 0.2:
            self.tree |= self.repo.put(*fact(f"fact {self.count}"))
        else:
            self.tree |= self.repo.log(f"task {self.count % 5}", self.random.choice([1, 1, 2]))

    def stage(self):
        self.repo.git("add", "-A")

    def commit(self):
        self.repo.git("add", "-A")
        self.repo.git("commit", "-q", "--allow-empty", "-m", "c")
        self.held[self.repo.head] = set(self.tree)

    def branch(self):
        self.repo.branch(f"b{self.count}-{len(self.done)}")

    def switch(self):
        target = self.other()
        loose = self.tree - self.held[self.repo.head]
        if target and self.git("checkout", "-q", target):
            self.tree = self.held[self.repo.head] | loose

    def merge(self):
        targets = sorted(
            {branch for branch in (self.other() for _ in range(self.random.choice([1, 1, 2, 3]))) if branch}
        )
        loose = self.tree - self.held[self.repo.head]
        expected = set().union(self.held[self.repo.head], *(self.held[self.tip(name)] for name in targets))
        if targets and self.git("merge", "-q", "--no-edit", *targets):
            self.held[self.repo.head] = expected
            self.tree = expected | loose

    def squash(self):
        target = self.other()
        self.commit()
        if target and self.git("merge", "-q", "--squash", target):
            self.tree |= self.held[self.tip(target)]
            self.commit()

    def rebase(self):
        target = self.other()
        self.commit()
        if target and self.git("rebase", "-q", target):
            self.tree |= self.held[self.tip(target)]
            self.held[self.repo.head] = set(self.tree)

    def cherry_pick(self):
        known = [
            name
            for name in self.held
            if name != self.base and self.parents(name) and self.parents(name)[0] in self.held
        ]
        picked = self.random.choice([name for name in sorted(known) if len(self.parents(name)) == 1] or [None])
        if picked is None:
            return
        loose = self.tree - self.held[self.repo.head]
        brought = self.held[picked] - self.held[self.parents(picked)[0]]
        before = self.held[self.repo.head]
        if self.pick("--allow-empty", "--keep-redundant-commits", picked):
            self.held[self.repo.head] = before | brought
            self.tree = before | brought | loose

    def stash(self):
        stashed = self.tree - self.held[self.repo.head]
        if not stashed or not self.git("stash", "-q", "-u"):
            return
        self.tree = set(self.held[self.repo.head])
        self.compare()
        self.put()
        if self.random.random() < 0.5:
            self.commit()
        self.repo.git("stash", "pop", "-q")
        self.tree |= stashed

    def reset_soft(self):
        parents = self.parents("HEAD")
        if self.repo.head != self.base and parents[0] in self.held:
            self.repo.git("reset", "-q", self.random.choice(["--soft", "--mixed"]), "HEAD~1")

    def amend(self):
        # a rebase would drop what is amended into a merge: git's own rule
        if self.repo.head != self.base and len(self.parents("HEAD")) == 1:
            self.repo.git("add", "-A")
            self.repo.git("commit", "-q", "--amend", "--allow-empty", "-m", f"amended {len(self.done)}")
            self.held[self.repo.head] = set(self.tree)

    def worktree(self):
        """Log and commit in a second worktree, on a branch of its own."""
        if self.second is None:
            place = self.repo.top.parent / "second"
            self.repo.git("worktree", "add", "-q", "-b", "second", str(place))
            self.second = Repo(place)
        second = self.second
        rows = set(self.held[second.head]) | second.log(f"there {len(self.done)}")
        second.commit()
        self.held[second.head] = rows
        assert second.hashes() == rows

    # how

    def git(self, *arguments):
        """Run git; report whether it did it. What it refuses must leave everything as it was."""
        before = (self.repo.head, self.repo.git("status", "--porcelain"))
        done = subprocess.run(["git", "-C", str(self.repo.top), *arguments], capture_output=True, text=True)
        if done.returncode == 0:
            return True
        said = done.stdout + done.stderr
        assert any(text in said for text in REFUSALS), said
        assert self.repo.git("ls-files", "--unmerged") == "", said
        for state in ("CHERRY_PICK_HEAD", "MERGE_HEAD", "rebase-merge"):
            assert not (self.repo.top / ".git" / state).exists(), said
        assert (self.repo.head, self.repo.git("status", "--porcelain")) == before
        self.refused += 1
        return False

    def pick(self, *arguments):
        """Pick a commit; where git takes a folder for renamed and asks, take it back and pick without such guesses."""
        head, before = self.repo.head, self.repo.git("status", "--porcelain")
        if "CONFLICT (file location)" not in self.repo.git("cherry-pick", *arguments, may_fail=True):
            if self.repo.head != head:
                return True
            return self.git("cherry-pick", *arguments)
        self.guessed += 1
        self.repo.git("cherry-pick", "--abort")
        assert self.repo.git("status", "--porcelain") == before
        return self.git("-c", "merge.directoryRenames=false", "cherry-pick", *arguments)

    def tip(self, name):
        return self.repo.git("rev-parse", name)

    def parents(self, name):
        return self.repo.git("rev-list", "--parents", "-n", "1", name).split()[1:]

    def other(self):
        names = self.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        mine = self.repo.git("symbolic-ref", "--short", "HEAD")
        names = [name for name in names if name not in (mine, "second")]
        return self.random.choice(names) if names else None

    def compare(self):
        found = self.repo.hashes()
        assert self.tree - found == set(), f"lost after {self.done[-8:]}"
        assert found - self.tree == set(), f"came from nowhere after {self.done[-8:]}"

    def step(self):
        steps = {
            self.put: 8,
            self.stage: 1,
            self.commit: 4,
            self.branch: 2,
            self.switch: 3,
            self.merge: 3,
            self.squash: 1,
            self.rebase: 1,
            self.cherry_pick: 2,
            self.stash: 2,
            self.reset_soft: 1,
            self.amend: 1,
            self.worktree: 1,
        }
        step = self.random.choices(list(steps), list(steps.values()))[0]
        self.done.append(step.__name__)
        step()
        self.compare()

    def end(self):
        """Bring every branch together."""
        self.commit()
        names = self.repo.git("for-each-ref", "--format=%(refname:short)", "refs/heads").split()
        self.tree = set().union(*(self.held[self.tip(name)] for name in names))
        for name in names:
            self.repo.git("merge", "-q", "--no-edit", name)
        self.compare()
        self.repo.expect(self.tree)
