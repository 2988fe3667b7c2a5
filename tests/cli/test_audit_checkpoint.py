"""Checkpoints from the command line, signed by a real key through the real ssh-keygen."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys

import pytest

from cyberos.core.episode import log
from cyberos.core.writer import Writer
from support import episode, git

needs_ssh = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="there is no ssh-keygen here")


def cyberos(root, *arguments, stdin=None):
    command = [sys.executable, "-m", "cyberos", "--store", str(root), "audit", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, encoding="utf-8", input=stdin)


@pytest.fixture
def key(tmp_path):
    made = tmp_path / "key"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "", "-f", str(made)], check=True)
    return made


@pytest.fixture
def allowed(key, tmp_path):
    made = tmp_path / "allowed_signers"
    made.write_text(f"ada@example.org {key.with_suffix('.pub').read_text()}")
    return made


@pytest.fixture
def signed(root, key, tmp_path):
    """Give a file with a signed checkpoint of a vault that has grown since."""
    log(Writer(root), episode("before"))
    done = cyberos(root, "checkpoint", "--sign", "--key", key)
    assert done.returncode == 0, done.stderr
    made = tmp_path / "kept"
    made.write_text(done.stdout, encoding="utf-8")
    log(Writer(root), episode("after"))
    return made


def test_unsigned_it_says_so(root):
    note = cyberos(root, "checkpoint").stdout
    done = cyberos(root, "verify", "--checkpoint", "-", stdin=note)
    assert done.returncode == 0
    assert "the checkpoint is not signed" in done.stdout
    assert "the ledger extends it: 1 row then, 1 now" in done.stdout


@needs_ssh
def test_signed_it_says_by_whom(root, signed, allowed):
    done = cyberos(root, "verify", "--checkpoint", signed, "--allowed-signers", allowed)
    assert (done.returncode, done.stderr) == (0, "")
    assert "signed by ada@example.org, ED25519 key SHA256:" in done.stdout
    assert "the ledger extends it: 3 rows then, 5 now" in done.stdout
    assert json.loads(cyberos(root, "verify", "--checkpoint", signed, "--json").stdout)["checkpoint"][1].endswith(
        "5 now"
    )


@needs_ssh
def test_the_key_that_git_signs_with_is_the_default(repo, key):
    assert cyberos(repo.root, "checkpoint", "--sign").returncode == 2
    git(repo.root, "config", "gpg.format", "ssh")
    git(repo.root, "config", "user.signingKey", str(key))
    assert "\n\n\u2014 cyberos.vault/" in cyberos(repo.root, "checkpoint", "--sign").stdout


@needs_ssh
@pytest.mark.parametrize(("old", "new"), [("\n3\n", "\n2\n"), ("\u2014 ", "- "), ("", ""), ("\n\n", "\n")])
def test_what_was_edited_is_not_what_was_signed(root, signed, old, new):
    text = signed.read_text(encoding="utf-8")
    text = text.replace(old, new) if old else text[:-100] + "AAAA" + text[-96:]
    signed.write_text(text, encoding="utf-8")
    assert cyberos(root, "verify", "--checkpoint", signed).returncode == 1


@needs_ssh
def test_another_key_is_no_allowed_one(root, signed, tmp_path):
    other = tmp_path / "other"
    subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(other)], check=True)
    nobody = tmp_path / "nobody"
    nobody.write_text(f"eve@example.org {other.with_suffix('.pub').read_text()}")
    done = cyberos(root, "verify", "--checkpoint", signed, "--allowed-signers", nobody)
    assert done.returncode == 1
    assert "signature: No principal matched" in done.stderr


@needs_ssh
def test_an_unsigned_one_is_nobodys(root, allowed):
    note = cyberos(root, "checkpoint").stdout
    done = cyberos(root, "verify", "--checkpoint", "-", "--allowed-signers", allowed, stdin=note)
    assert (done.returncode, "nobody signed it" in done.stderr) == (1, True)


@needs_ssh
def test_a_tail_that_was_cut_off_with_its_memories_is_seen_without_git(root, signed):
    newest = max(root.glob("audit/*/*/*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    lines = newest.read_bytes().splitlines(keepends=True)
    newest.write_bytes(b"".join(lines[:1]))
    done = cyberos(root, "verify", "--checkpoint", signed)
    assert done.returncode == 1
    assert "the ledger does not extend the checkpoint: 1 of its 1 heads are gone" in done.stderr


@needs_ssh
def test_the_ledger_of_another_vault_does_not_extend_it(signed, tmp_path):
    from cyberos.core.vault import init

    other = init(tmp_path / "other").root
    assert "it is one of vault" in cyberos(other, "verify", "--checkpoint", signed).stderr


def test_a_key_that_is_not_there_is_an_error(root, tmp_path):
    done = cyberos(root, "checkpoint", "--sign", "--key", tmp_path / "none")
    assert (done.returncode, done.stdout) == (1, "")
    assert "signature:" in done.stderr


@pytest.mark.parametrize("blob", [b"", b"x", b"\xff\xfe", b"cyberos.vault/" + b"0" * (2 << 20)])
def test_what_is_no_checkpoint_is_refused(root, tmp_path, blob):
    kept = tmp_path / "kept"
    kept.write_bytes(blob)
    done = cyberos(root, "verify", "--checkpoint", kept)
    assert (done.returncode, "no checkpoint:" in done.stderr) == (1, True)


def test_allowed_signers_go_with_a_checkpoint(root, tmp_path):
    assert cyberos(root, "verify", "--allowed-signers", tmp_path).returncode == 2
