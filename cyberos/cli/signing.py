"""Signatures by an SSH key, made and checked by `ssh-keygen -Y`: the keys that git signs with, and nothing to install.

    -----BEGIN SSH SIGNATURE-----
    U1NIU0lHAAAAAQAAADMAAAALc3NoLWVkMjU1MTkAAAAg…
    -----END SSH SIGNATURE-----

Source: ssh-keygen(1), "-Y sign", "-Y verify"; openssh-portable, PROTOCOL.sshsig.
"""

from __future__ import annotations

import base64
import re
import subprocess
import tempfile

from cyberos.core.errors import SigningFailed

NAMESPACE = "cyberos-checkpoint"
_BEGIN, _END = "-----BEGIN SSH SIGNATURE-----\n", "-----END SSH SIGNATURE-----\n"


def sign(text: str, key: str) -> bytes:
    """Sign a text with the key in a file; ssh-keygen asks for its passphrase itself. Raises: SigningFailed."""
    said = _ssh_keygen("sign", "-n", NAMESPACE, "-f", key, stdin=text)
    return base64.b64decode(said.partition(_BEGIN)[2].partition(_END)[0])


def verify(text: str, signature: bytes, allowed: str | None) -> str:
    """Check a signature; say by which key, and by whom where a file of allowed signers tells. Raises: SigningFailed."""
    with tempfile.TemporaryDirectory(prefix="cyberos-") as folder:
        name = f"{folder}/signature"
        with open(name, "w", encoding="ascii") as handle:
            handle.write(f"{_BEGIN}{base64.encodebytes(signature).decode('ascii')}{_END}")
        if allowed is None:
            return _key(_ssh_keygen("check-novalidate", "-n", NAMESPACE, "-s", name, stdin=text))
        who = _ssh_keygen("find-principals", "-s", name, "-f", allowed).splitlines()[0]
        said = _ssh_keygen("verify", "-n", NAMESPACE, "-s", name, "-f", allowed, "-I", who, stdin=text)
        return f"{who}, {_key(said)}"


def _key(said: str) -> str:
    found = re.search(r"with (.+ key \S+)", said)
    return found[1] if found else "an SSH key"


def _ssh_keygen(verb: str, *arguments: str, stdin: str = "") -> str:
    try:
        done = subprocess.run(
            ["ssh-keygen", "-Y", verb, *arguments], input=stdin.encode("utf-8"), capture_output=True, check=False
        )
    except OSError as error:
        raise SigningFailed(f"ssh-keygen cannot be run: {error.strerror}") from None
    if done.returncode:
        said = (done.stderr or done.stdout).decode("utf-8", "replace").strip().splitlines()
        raise SigningFailed(said[-1] if said else f"ssh-keygen -Y {verb} ended with {done.returncode}")
    return done.stdout.decode("utf-8", "replace")
