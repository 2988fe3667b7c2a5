"""A vault's git repository, asked as plumbing: what HEAD, the index and the working tree hold, blob by blob.

Answers are read with `-z` and never paged, converted or shown through a driver. Nothing that a repository's own
configuration names is run: no hook, no fsmonitor, no external diff, no textconv, no clean filter, no transport (a
partial clone's missing blob is missing, and is not fetched). Only read-only commands are used and no lock is taken.

Source: git(1), git-diff-index(1), git-cat-file(1), gitattributes(5); DESIGN section 5.
"""

from __future__ import annotations

import os
import subprocess
from hashlib import sha1, sha256
from typing import TYPE_CHECKING, NamedTuple, Self

from cyberos.core import git, gitdir

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from types import TracebackType

_PATHS = ("GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY")  # given relative to the folder in which a hook runs
_DROPPED = ("GIT_PREFIX", "GIT_EXTERNAL_DIFF", "GIT_PAGER")
# a hook's own words on these, which hold in the folder where it began; git finds them again from the top
_FOUND_BY_LOOKING = ("GIT_DIR", "GIT_WORK_TREE", "GIT_COMMON_DIR")
GITLINK, LINK = "160000", "120000"


class Change(NamedTuple):
    """One path that differs: `status` is git's letter, an id of zeros stands for what git has no blob of."""

    status: str
    path: str
    old: str
    new: str
    mode: str


class Repository:
    """The repository whose working tree holds the vault at `root`. Paths are relative to the vault.

    Made by `open_at`. Methods give None or nothing where git does not answer. `object_format` is the hash that ids are
    of, `sha1` or `sha256`; None when git does not answer.
    """

    def __init__(self, top: str, root: str, dropped: Iterable[str] = ()) -> None:
        self.top = top
        self.root = root
        inside = os.path.relpath(os.path.realpath(root), os.path.realpath(top)).replace(os.sep, "/")
        self.prefix = "" if inside == "." else f"{inside}/"
        self._environment = _environment(dropped)
        self._flags = [*git.QUIET, *_STRICT, "--literal-pathspecs"]
        asked = self.start("rev-parse", "--show-object-format")
        self._environment |= self._without_filters()
        self.object_format = _object_format(finish(asked))

    def _without_filters(self) -> dict[str, str]:
        # an entry as young as the index is compared by content, for which git would run the filter of its attributes;
        # by the environment, since `-c` would end a driver's name at its first `=`
        named = self.run("config", "--name-only", "-z", "--get-regexp", r"^filter\.") or b""
        drivers = sorted({name.rpartition(".")[0] for name in _texts(named)})
        self.filters = frozenset(driver.removeprefix("filter.") for driver in drivers)
        begun = self._environment.get("GIT_CONFIG_COUNT", "")
        count = int(begun) if begun.isdigit() else 0
        found: dict[str, str] = {}
        for driver in drivers:
            for key, value in _FILTER_KEYS.items():
                found |= {f"GIT_CONFIG_KEY_{count}": f"{driver}.{key}", f"GIT_CONFIG_VALUE_{count}": value}
                count += 1
        return found | {"GIT_CONFIG_COUNT": str(count)} if found else {}

    def start(self, *arguments: str, stdin: int = subprocess.DEVNULL) -> subprocess.Popen[bytes] | None:
        """Begin a git command in the working tree's top folder."""
        command = ["git", *self._flags, "-C", self.top, *arguments]
        pipe, none = subprocess.PIPE, subprocess.DEVNULL
        try:
            return subprocess.Popen(command, stdin=stdin, stdout=pipe, stderr=none, env=self._environment)
        except OSError:
            return None

    def run(self, *arguments: str, stdin: bytes | None = None) -> bytes | None:
        """Give a command's output, or None when git says no or is not there."""
        started = self.start(*arguments, stdin=subprocess.DEVNULL if stdin is None else subprocess.PIPE)
        return finish(started, stdin)

    def commit(self, name: str) -> str | None:
        """Give the id of the commit that a name stands for."""
        return self.commits(name)[0]

    def commits(self, *names: str) -> list[str | None]:
        """Give the ids of the commits that names stand for, asked at once, each None where it stands for none."""
        asked = ("rev-parse", "--verify", "--quiet", "--end-of-options")
        told = [finish(process) for process in [self.start(*asked, f"{name}^{{commit}}") for name in names]]
        return [found.decode().strip() if found else None for found in told]

    def tree(self, name: str) -> str | None:
        """Give the id of a tree, such as that of `HEAD:audit`; the path is relative to the vault."""
        commit, _, path = name.partition(":")
        found = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{commit}:{self.prefix}{path}")
        return found.decode().strip() if found else None

    @property
    def empty_tree(self) -> str:
        """The id of the tree that holds nothing."""
        found = self.run("hash-object", "-t", "tree", "--stdin", stdin=b"")
        return found.decode().strip() if found else ""

    def below(self, paths: Iterable[str]) -> list[str]:
        """Give paths of the vault as git's own, relative to the top of the working tree."""
        return [f"{self.prefix}{path}" for path in paths]

    def changes(self, command: Sequence[str], paths: Iterable[str]) -> list[Change] | None:
        """Give what `diff-index`, `diff-files` or `diff-tree`, called with `-z --raw`, tells of these paths."""
        output = self.run(*command, *RAW, "--", *self.below(paths))
        return None if output is None else list(self.read_changes(output))

    def read_changes(self, output: bytes, prefix: str | None = None) -> Iterator[Change]:
        """Read the raw `-z` output of a comparison; `prefix`, else the vault's own, is cut off the paths."""
        begin = self.prefix if prefix is None else prefix
        fields = iter(_texts(output))
        for field in fields:
            if field.startswith(":"):
                _, mode, old, new, status = field[1:].split(" ")
                path = next(fields, "")
                if path.startswith(begin):
                    yield Change(status[0], path[len(begin) :], old, new, mode)

    def digest_of(self, blob: bytes) -> bytes:
        """Give the id that git gives to these bytes where nothing converts them, as bytes."""
        made = sha256 if self.object_format == "sha256" else sha1
        digest = made(b"blob %d\0" % len(blob), usedforsecurity=False)
        digest.update(blob)
        return digest.digest()

    def ids_as_added(self, paths: Sequence[str]) -> dict[str, str]:
        """Give the ids that `git add` would make for files, conversions of line ends and encodings included.

        A file that a clean filter stands before, which is not run here, is left out.
        """
        asked = os.fsencode("\0".join([*self.below(paths), ""]))
        told = _texts(self.run("check-attr", "-z", "--stdin", "filter", stdin=asked) or b"")
        filtered = {path for path, value in zip(told[::3], told[2::3], strict=True) if value in self.filters}
        rest = [path for path, name in zip(paths, self.below(paths), strict=True) if name not in filtered]
        names = os.fsencode("".join(f"{name}\n" for name in self.below(rest)))
        made = self.run("hash-object", "--stdin-paths", stdin=names) or b""
        ids = made.decode().split()
        return dict(zip(rest, ids, strict=True)) if len(ids) == len(rest) else dict.fromkeys(rest, "")


RAW = ("-z", "--raw", "--no-renames", "--no-abbrev", "--no-ext-diff", "--ignore-submodules=all")
# a change of a file's inode or of its ctime is a change, whatever the repository's configuration says
_STRICT = ("-c", "core.hooksPath=/dev/null", "-c", "core.trustctime=true", "-c", "core.checkStat=default")
_FILTER_KEYS = {"clean": "", "smudge": "", "process": "", "required": "false"}


class Blobs:
    """A long-lived `git cat-file --batch`, begun at the first question; use it as a context."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if self._process is not None:
            self._process.communicate()
            self._process = None

    def at(self, revision: str) -> Callable[[str], bytes | None]:
        """Make a function that reads the vault's paths in a revision (`HEAD:`) or in the index (`:0:`)."""
        prefix = f"{revision}{self._repository.prefix}"
        return lambda path: None if "\n" in path else self.read(f"{prefix}{path}")

    def read(self, name: str, limit: int | None = None) -> bytes | None:
        """Give a blob's bytes, at most one more than `limit`, or None when this clone does not have it."""
        if self._process is None:
            self._process = self._repository.start("cat-file", "--batch", stdin=subprocess.PIPE)
        process = self._process
        if process is None or process.stdin is None or process.stdout is None:
            return None
        try:
            process.stdin.write(os.fsencode(name) + b"\n")
            process.stdin.flush()
        except OSError:
            return None
        head = process.stdout.readline().split()
        if len(head) != 3 or not head[2].isdigit():  # noqa: PLR2004 - id, type, size; else `<name> missing`
            return None
        rest = int(head[2]) + 1  # and a line end
        taken = rest if limit is None else min(rest, limit + 2)
        blob = process.stdout.read(taken)[: rest - 1]
        rest -= taken
        while rest > 0 and (dropped := len(process.stdout.read(min(rest, _CHUNK)))):
            rest -= dropped
        return blob if head[1] == b"blob" else None


_CHUNK = 1 << 20


def open_at(root: str | os.PathLike[str]) -> Repository | None:
    """Find the repository of the working tree that holds `root`; None outside git, and where git is not installed."""
    if gitdir.find(os.fspath(root)) is None:
        return None
    folder = os.path.realpath(root)
    while not _has_git(folder):
        parent = os.path.dirname(folder)
        if parent == folder:
            named = git.text(root, "rev-parse", "--show-toplevel")
            return Repository(named, os.fspath(root)) if named else None
        folder = parent
    made = Repository(folder, os.fspath(root), _FOUND_BY_LOOKING)
    return made if made.object_format is not None else None


def _has_git(folder: str) -> bool:
    path = os.path.join(folder, ".git")
    return os.path.isfile(path) or os.path.exists(os.path.join(path, "HEAD"))


def finish(process: subprocess.Popen[bytes] | None, stdin: bytes | None = None) -> bytes | None:
    """Wait for a command begun with `start`; give its output, or None when it failed."""
    if process is None:
        return None
    output, _ = process.communicate(stdin)
    return output if process.returncode == 0 else None


def _object_format(found: bytes | None) -> str | None:
    # a git too old to know the question gives it back; it knows SHA-1 alone
    return None if found is None else "sha256" if found.strip() == b"sha256" else "sha1"


def _environment(dropped: Iterable[str]) -> dict[str, str]:
    found = {key: value for key, value in os.environ.items() if key not in {*_DROPPED, *dropped}}
    for name in _PATHS:
        if name in found:
            found[name] = os.path.abspath(found[name])
    return found | {"GIT_TERMINAL_PROMPT": "0", "GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none"}


def _texts(output: bytes) -> list[str]:
    return output.decode("utf-8", "surrogateescape").split("\0")[:-1]
