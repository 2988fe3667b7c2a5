"""No path leads out of the vault: hostile names, links planted at every level, hard links, and links swapped in meanwhile.

Beside the vault lie files that nothing may touch. Each attack lets everything write that can: put, log, adopt,
quarantine, forget, retain, doctor --fix, index, init, the hooks. What they answer is theirs; not a byte, name or time outside may
change.
"""

from __future__ import annotations

import io
import os
import shutil
import threading
from contextlib import redirect_stderr, redirect_stdout, suppress
from pathlib import Path
from unittest import mock

from cyberos.agents import hooks
from cyberos.cli import main as command_line
from cyberos.cli.hook import Vault
from cyberos.core.episode import log
from cyberos.core.errors import CyberosError
from cyberos.core.vault import init
from cyberos.core.writer import Writer
from prove.table import folder, promise
from support import episode, fact, write_raw

GOOD, TEXT = fact("we deploy on Tuesdays")
NAME = GOOD.removesuffix(".md")
AB = "memories/facts/ab/cd"
NAMES = [
    "../outside/x.md", "../../outside/x.md", "memories/../../outside/x.md", "memories/facts/../../../outside/x.md", f"{AB}/../../../../../outside/x.md",
    f"{AB}/..%2f..%2fx.md", "{outside}/x.md", "{outside}/new.md", "/etc/cyberos.md", "~/x.md", "$HOME/x.md", "file:///etc/x.md", "\\\\host\\share\\x.md",
    "C:\\x.md", "memories\\facts\\ab\\cd\\x.md", f"{AB}/x.md\0.txt", f"{AB}/\0.md", f"{AB}/x\n.md", f"{AB}/x.md\n", f"{AB}/\u2025/x.md", f"{AB}/\uff0e\uff0e/x.md", f"{AB}/\uff0e\uff0e\uff0fx.md",
    f"{AB}/\u2024\u2024/x.md", f"{AB}/x\u202e.md", f"{AB}/с.md", f"{AB}/con.md", f"{AB}/NUL.txt.md", f"{AB}/aux.md", f"{AB}/LPT1.md", f"{AB}/x:stream.md", f"{AB}/.md", f"{AB}/..md.md",
    f"{AB}/{'a' * 300}.md", f"{'a/' * 3000}x.md", f"memories/facts/AB/cd/{'a' * 8}.md", "MEMORIES/facts/ab/cd/x.md", "memories/Facts/ab/cd/x.md", f"{AB}/x.MD", f"./{AB}/x.md", f"{AB}//x.md",
    f"{AB}/x.md/", "", ".", "..", "/", "audit/2026-11/30/0123456789abcdef.jsonl", ".cyberos/HEAD", ".git/hooks/pre-commit", ".gitattributes", f"{AB}/x\ud800.md",
]  # fmt: skip
LEVELS = [
    "memories", "memories/facts", os.path.dirname(os.path.dirname(GOOD)), os.path.dirname(GOOD), GOOD, "memories/episodes", "audit", "audit/*", "audit/*/*", "audit/*/*/*",
    ".cyberos", ".cyberos/stage", ".cyberos/HEAD", ".cyberos/lock", ".cyberos/index", ".cyberos/lost+found", ".cyberos/hooks", ".cyberos/.gitignore", ".gitattributes", ".ignore",
    "cyberos.toml", "memory.invariants.yaml",
]  # fmt: skip
HARD = [GOOD, "audit/*/*/*", ".cyberos/HEAD", ".cyberos/lock", ".gitattributes", ".ignore", ".cyberos/.gitignore"]


class Ground:
    """A vault, and outside of it what is precious."""

    def __init__(self, top: Path) -> None:
        self.top, self.root, self.outside = top, top / "vault", top / "outside"
        for name in ("x.md", "HEAD", "lock", "day/0123456789abcdef.jsonl", "facts/ab/cd/x.md"):
            write_raw(self.outside / name, f"precious {name}\n")
        init(self.root)
        writer = Writer(self.root, durability="none")
        writer.put(GOOD, TEXT)
        log(writer, episode("an honest one"))
        log(writer, episode("an old one", occurred_at="2020-01-01T00:00:00Z"))

    def picture(self) -> dict:
        """Give everything outside that could change but the number of names, which a plant adds to."""
        found = {}
        for entry in [self.outside, *sorted(self.outside.rglob("*"))]:
            status = entry.lstat()
            blob = entry.read_bytes() if entry.is_file() else None
            found[str(entry)] = (status.st_ino, status.st_size, status.st_mtime_ns, status.st_mode, blob)
        beside = sorted(name for name in os.listdir(self.top) if name != "home")
        return found | {"beside": beside, "home": sorted(map(str, (self.top / "home").rglob("*")))}

    def run(self, *arguments: str) -> int:
        said = io.StringIO()
        with redirect_stdout(said), redirect_stderr(said):
            return command_line.main(["--store", str(self.root), *arguments])

    def hook(self) -> None:
        given = {"session_id": "s", "prompt": "fix the login form test"}
        with suppress(CyberosError, OSError):
            hooks.answer("prompt", "claude-code", given, Vault(self.root))

    def everything(self, name: str = GOOD) -> list[int]:
        """Let all that can write do so; give the exit codes."""
        flags = ("--task", "t", "--approach", "a", "--outcome", "success", "--duration-ms", "1")
        body = self.top / "home/body"
        body.write_text(TEXT.replace("Tuesdays", "Mondays"))
        self.hook()
        return [
            self.run("put", name, str(body)),
            self.run("episode", "log", *flags),
            self.run("adopt", name),
            self.run("quarantine", name, "--reason", "r"),
            self.run("index"),
            self.run("recall-similar", "an honest one"),
            self.run("doctor", "--fix"),
            self.run("forget", name, "--reason", "r"),
            self.run("retain", "--older-than", "52w", "--yes"),
            self.run("init", str(self.root)),
        ]


def by_name(ground: Ground, name: str) -> None:
    name = name.format(outside=ground.outside) if name.startswith("{") else name
    with suppress(CyberosError, OSError, ValueError):
        Writer(ground.root, durability="none").put(name, TEXT)
    with suppress(CyberosError, OSError, ValueError):
        Writer(ground.root, durability="none").forget(name, "r")
    if not {"\0", "\ud800"} & set(name):  # which no argument can hold
        ground.everything(name)


def targets(ground: Ground, place: str) -> list[Path]:
    return sorted(ground.root.glob(place)) if "*" in place else [ground.root / place]


def by_link(ground: Ground, place: str) -> None:
    for number, target in enumerate(targets(ground, place)):
        is_folder = target.is_dir() or "." not in target.name
        if target.is_dir() and not target.is_symlink():
            moved = ground.outside / f"moved{number}"
            shutil.copytree(target, moved, symlinks=True)
            shutil.rmtree(target)
            aim = moved
        elif os.path.lexists(target):
            target.unlink()
            aim = ground.outside / "x.md"
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            aim = ground.outside / ("facts" if is_folder else "x.md")
        target.symlink_to(aim, target_is_directory=aim.is_dir())


def by_hard_link(ground: Ground, place: str) -> None:
    for target in targets(ground, place):
        kept = ground.outside / f"second-{target.name}"
        if target.exists():
            shutil.copy(target, kept)
            target.unlink()
        else:
            kept.write_bytes(b"precious\n")
        target.parent.mkdir(parents=True, exist_ok=True)
        os.link(kept, target)


def swapping(ground: Ground, place: str) -> None:
    """Swap a folder for a link to the outside and back, again and again, while a writer writes below it."""
    target, aside, is_over = ground.root / place, ground.top / "home/aside", threading.Event()

    def swap() -> None:
        while not is_over.is_set():
            with suppress(OSError):
                os.rename(target, aside)
                os.symlink(ground.outside, target)
                os.unlink(target)
            with suppress(OSError):
                if not target.exists():
                    os.rename(aside, target)
                else:
                    shutil.copytree(aside, target, dirs_exist_ok=True)
                    shutil.rmtree(aside)

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        for number in range(40):
            with suppress(CyberosError, OSError):
                Writer(ground.root, durability="none").put(*fact(f"we deploy at {number}"))
            with suppress(CyberosError, OSError):
                log(Writer(ground.root, durability="none"), episode(f"task {number}"))
    finally:
        is_over.set()
        thread.join()


RACES = ["memories", "memories/facts", "memories/episodes", "audit", ".cyberos", ".cyberos/stage"]


def plants() -> list[tuple[str, str]]:
    return [
        *(("name", name) for name in NAMES),
        *(("link", place) for place in LEVELS),
        *(("hard link", place) for place in HARD),
        *(("race", place) for place in RACES),
    ]


@promise("no attack by path, link or race writes a byte outside the vault")
def outside(scale: float) -> tuple[str, bool]:
    attacks = plants()
    escaped = []
    with folder() as top:
        (top / "home").mkdir()
        assert not any(Ground(top).everything()), "what is not attacked works"
    for kind, what in attacks[:: 1 if scale == 1 else 3]:
        with folder() as top:
            (top / "home").mkdir()
            ground = Ground(top)
            if kind == "link":
                by_link(ground, what)
            elif kind == "hard link":
                by_hard_link(ground, what)
            before = ground.picture()
            with mock.patch.dict(os.environ, HOME=str(top / "home")):
                if kind == "name":
                    by_name(ground, what)
                elif kind == "race":
                    swapping(ground, what)
                else:
                    ground.everything()
            (top / "home/body").unlink(missing_ok=True)
            shutil.rmtree(top / "home/aside", ignore_errors=True)
            after = ground.picture()
            if after != before:
                escaped.append(
                    f"{kind} {what[:60]!r}: {[key for key in {*before, *after} if before.get(key) != after.get(key)][:3]}"
                )
    return (
        f"{len(attacks[:: 1 if scale == 1 else 3])} attacks, {len(escaped)} reached outside {escaped[:3] or ''}",
        not escaped,
    )
