"""The other verbs, each through the command line as a user calls it."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
from hashlib import sha256

import click
import pytest

from cyberos.cli.main import VERBS, cli, main
from cyberos.core import ledger
from cyberos.core.episode import Episode, log
from cyberos.core.lock import lock
from cyberos.core.writer import Writer
from cyberos.index import meaning, sync
from support import Repo, episode, fact

MINE = ("recall-similar", "put", "read", "list", "history", "adopt", "forget", "audit", "index", "config")


@pytest.fixture
def call(root, capsys):
    """Run a verb on the vault; give exit code, stdout and stderr."""

    def run(*arguments, store=root):
        capsys.readouterr()
        code = main(["--store", str(store), *arguments])
        told = capsys.readouterr()
        return code, told.out, told.err

    return run


@pytest.fixture
def stdin(monkeypatch):
    def give(text):
        blob = text if isinstance(text, bytes) else text.encode()
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(blob)))

    return give


def add(root, task="ship the login form", **fields):
    return log(Writer(root, durability="none"), episode(task, **fields)).as_posix()


def add_fact(root, text="the deploy script lives at bin/deploy", name="deploy"):
    path, body = fact(text, name)
    Writer(root, durability="none").put(path, body)
    return path


def empty_stage(root):
    for entry in (root / ".cyberos/stage").iterdir():
        entry.unlink()


def commands(group, names=()):
    for name in group.list_commands(None):
        command = group.get_command(None, name)
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from commands(command, (*names, name))


@pytest.mark.parametrize("verb", MINE)
def test_every_verb_has_help_and_an_example(call, verb):
    assert verb in VERBS
    code, out, _ = call(verb, "--help")
    assert code == 0
    assert "Example" in out


def test_every_option_says_what_it_does():
    for names, command in commands(cli):
        if names[0] in MINE:
            assert command.help, names
            for parameter in command.params:
                assert isinstance(parameter, click.Argument) or parameter.help, (names, parameter.name)


# --- read -----------------------------------------------------------------------------------------------------------


def test_read_gives_the_files_bytes(root, capfdbinary):
    path = add(root, "ship näïve \u202e 🦓")
    assert main(["--store", str(root), "read", path]) == 0
    assert capfdbinary.readouterr().out == (root / path).read_bytes()


def test_ac10_read_round_trips_the_frontmatter(root, call):
    made = Episode(
        "t", "a", "failure", 5, 7, 1.0, "n", "e", lesson="l", tags=["x", "y"], occurred_at="2025-01-01T00:00:00Z"
    )
    path = log(Writer(root), made).as_posix()
    _, out, _ = call("read", path, "--json")
    assert json.loads(out) == {"path": path, "frontmatter": made.frontmatter(), "body": made.searchable_document()}
    assert Episode.from_frontmatter(json.loads(out)["frontmatter"]) == made


def test_read_takes_a_path_from_here_from_the_vault_or_absolute(root, call, monkeypatch, tmp_path):
    path = add(root)
    (tmp_path / "link").symlink_to(root)
    monkeypatch.chdir((root / path).parent)
    for given in (
        path,
        os.path.basename(path),
        f"./{os.path.basename(path)}",
        str(root / path),
        str(tmp_path / "link" / path),
    ):
        code, out, _ = call("read", given, "--json")
        assert (code, json.loads(out)["path"]) == (0, path)


@pytest.mark.parametrize(
    "path", ["/etc/passwd", "../../etc/passwd", "memories/../audit/x", "README.md", "memories/episodes/aa/bb/x.md"]
)
def test_read_stays_in_the_vault(call, path):
    code, out, err = call("read", path)
    assert (code, out) == (1, "")
    assert "memories/<kind>" in err


def test_read_says_what_there_is_not(root, call):
    path = add(root)
    assert call("read", "memories/facts/aa/bb/none.md")[0] == 1
    Writer(root).forget(path, "private")
    code, _, err = call("read", path)
    assert code == 1
    assert "forgotten" in err
    (root / path).parent.mkdir(parents=True, exist_ok=True)
    (root / path).write_text("it is back")
    assert call("read", path)[0] == 1


def test_read_finds_a_body_in_the_stage(root, call):
    path = add(root)
    blob = (root / path).read_bytes()
    (root / path).unlink()
    code, out, err = call("read", path)
    assert (code, out, err) == (0, blob.decode(), "")
    empty_stage(root)
    code, _, err = call("read", path)
    assert code == 1
    assert "missing" in err


def test_read_warns_of_what_is_not_what_was_logged(root, call):
    path = add_fact(root)
    (root / path).write_text((root / path).read_text() + "and more\n")
    empty_stage(root)
    code, out, err = call("read", path)
    assert code == 0
    assert "and more" in out
    assert "not what was logged" in err
    unlogged, body = fact("by hand")
    (root / unlogged).parent.mkdir(parents=True)
    (root / unlogged).write_text(body)
    code, out, err = call("read", unlogged)
    assert (code, out) == (0, body)
    assert "does not know" in err
    quarantined = add(root)
    Writer(root).quarantine(quarantined, "poisoned")
    code, out, err = call("read", quarantined)
    assert code == 0
    assert "quarantined" in err


def test_read_of_a_botched_file_as_json_names_the_rule(root, call):
    path, _ = fact("x")
    (root / path).parent.mkdir(parents=True)
    (root / path).write_text("no frontmatter")
    code, _, err = call("read", path, "--json")
    assert code == 1
    assert "frontmatter-parse" in err
    assert path in err


def test_read_of_legacy_yaml_gives_dates_as_text(root, call):
    path, _ = fact("x")
    Writer(root).put(path, "---\nkind: facts\nwhen: 2025-01-02\n---\n\nit is so\n")
    document = json.loads(call("read", path, "--json")[1])
    assert document["frontmatter"] == {"kind": "facts", "when": "2025-01-02"}
    assert document["body"] == "it is so"


def test_read_works_while_the_index_is_being_written(root, call):
    path = add(root)
    (root / ".cyberos/index").mkdir()
    with lock(str(root / sync.LOCK), 1):
        done = subprocess.run(
            [sys.executable, "-m", "cyberos", "--store", str(root), "read", path], capture_output=True, text=True
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, (root / path).read_text(), "")


# --- list, history --------------------------------------------------------------------------------------------------


def test_list_shows_the_last_logged_first(root, call):
    made = [add(root, f"ship {n}") for n in range(3)] + [add_fact(root)]
    _, out, _ = call("list", "--json")
    items = json.loads(out)["items"]
    assert [item["path"] for item in items] == made[::-1]
    assert items[0] | {"last_seen_at": ""} == {
        "path": made[3], "kind": "facts", "title": "deploy", "outcome": None, "label": None, "scope": "default",
        "last_seen_at": "", "occurred_at": None, "state": "ready",
    }  # fmt: skip
    assert items[1]["title"] == "ship 2"
    assert items[1]["label"] == "claimed_success"
    _, out, _ = call("list", "--kind", "episode", "--limit", "2", "--json")
    assert [item["path"] for item in json.loads(out)["items"]] == [made[2], made[1]]
    code, out, _ = call("list")
    assert (code, len(out.splitlines())) == (0, 4)
    assert made[3] in out.splitlines()[0]


def test_list_of_nothing_says_so(call):
    assert "no memories" in call("list")[1]
    assert "people" in call("list", "--kind", "people")[1]
    assert json.loads(call("list", "--json")[1]) == {"items": []}
    assert call("list", "--limit", "0")[0] == 2
    assert call("list", "--kind", "dreams")[0] == 2


def test_list_tells_what_is_hidden_or_lost(root, call):
    hidden, lost, gone = (add(root, f"ship {n}") for n in range(3))
    call("list")
    Writer(root).quarantine(hidden, "poisoned")
    Writer(root).forget(gone, "private")
    empty_stage(root)
    (root / lost).write_text("tampered")
    states = {item["path"]: item["state"] for item in json.loads(call("list", "--json")[1])["items"]}
    assert states == {hidden: "quarantined", lost: "absent"}
    assert "(absent)" in call("list")[1]


def test_history_shows_every_row_that_touches_a_memory(root, call):
    path = add(root)
    Writer(root).forget(path, "names a customer")
    _, out, _ = call("history", path, "--json")
    items = json.loads(out)["items"]
    assert [row["kind"] for row in items] == ["put", "episode.logged", "memory.forgotten"]
    assert items == [row for row in ledger.scan(root).rows if row["payload"].get("path") == path]
    code, out, _ = call("history", path)
    assert code == 0
    assert "names a customer" in out
    assert call("history", "memories/facts/aa/bb/none.md")[0] == 1


# --- put, adopt -----------------------------------------------------------------------------------------------------


def test_put_from_stdin_by_kind_and_name(root, call, stdin):
    stdin("The deploy script lives at bin/deploy.\n")
    code, out, _ = call("put", "--kind", "facts", "--name", "deploy-script")
    digest = sha256(b"deploy-script").hexdigest()
    path = f"memories/facts/{digest[:2]}/{digest[2:4]}/deploy-script.md"
    assert (code, out) == (0, f"{path}\n")
    assert (root / path).read_text() == '---\n{\n  "kind": "facts"\n}\n---\n\nThe deploy script lives at bin/deploy.\n'
    stdin("It moved.")
    _, out, _ = call("put", "--kind", "facts", "--name", "deploy-script", "-", "--json")
    assert json.loads(out) == {"path": path, "seq": 3}
    assert "It moved." in (root / path).read_text()


def test_put_from_a_file_keeps_its_frontmatter(root, call, tmp_path):
    path, body = fact("we ship on friday")
    (tmp_path / "note.md").write_text(body)
    assert call("put", path, str(tmp_path / "note.md")) == (0, f"{path}\n", "")
    assert (root / path).read_text() == body


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("--kind", "facts"),
        ("--name", "x"),
        ("a", "b", "c"),
        ("--kind", "facts", "--name", "x", "a", "b"),
        ("--kind", "episode", "--name", "x"),
    ],
)
def test_put_asks_for_a_place(call, stdin, arguments):
    stdin("text")
    assert call("put", *arguments)[0] == 2


def test_put_refuses_what_may_not_be_written(root, call, stdin, tmp_path):
    path = add(root)
    stdin((root / path).read_text())
    code, _, err = call("put", path)
    assert code == 1
    assert "never changed" in err
    stdin("text")
    assert call("put", "--kind", "facts", "--name", "../../evil")[0] == 1
    stdin("text")
    assert call("put", "/etc/passwd")[0] == 1
    stdin(" \n")
    assert call("put", "--kind", "facts", "--name", "x")[0] == 2
    stdin(b"\xff\xfe")
    code, _, err = call("put", "--kind", "facts", "--name", "x")
    assert code == 1
    assert "text-encoding" in err
    assert call("put", "--kind", "facts", "--name", "x", str(tmp_path / "none"))[0] == 2
    stdin("password: ghp_" + "a1B2" * 9)
    code, _, err = call("put", "--kind", "facts", "--name", "x")
    assert code == 1
    assert "credential" in err
    assert list(root.glob("memories/facts/**/*.md")) == []


def test_adopt_logs_all_or_none(root, call):
    paths = []
    for text in ("one", "two"):
        path, body = fact(text)
        (root / path).parent.mkdir(parents=True)
        (root / path).write_text(body)
        paths.append(path)
    code, _, err = call("adopt", *paths, "memories/facts/aa/bb/none.md")
    assert code == 1
    assert "no such file" in err
    assert len(ledger.scan(root).rows) == 1
    code, out, _ = call("adopt", *paths, "--json")
    assert json.loads(out) == {"adopted": paths, "unchanged": []}
    code, out, _ = call("adopt", *paths)
    assert out == "".join(f"unchanged {path}\n" for path in paths)
    rows = ledger.scan(root).rows[1:]
    assert [(row["kind"], row["tx"]) for row in rows] == [("memory.adopted", [1, 2]), ("memory.adopted", [2, 2])]
    assert call("adopt", add(root))[0] == 1
    assert call("adopt")[0] == 2


# --- forget ---------------------------------------------------------------------------------------------------------


def test_forget_takes_the_text_away_everywhere(root, call):
    path, kept = add(root, "ship the Quetzalcoatlus"), add(root)
    assert call("recall-similar", "Quetzalcoatlus")[0] == 0
    code, out, err = call("forget", path, "--reason", "names a customer")
    assert (code, err) == (0, "")
    assert f"forgot {path}" in out
    assert "filter-repo" not in out
    assert "backups" in out
    found = b"".join(file.read_bytes() for file in root.rglob("*") if file.is_file()).lower()
    assert b"quetzalcoatlu" not in found
    assert call("recall-similar", "Quetzalcoatlus")[1].startswith("nothing found")
    assert call("audit", "verify")[0] == 0
    assert (root / kept).exists()
    assert call("forget", path, "--reason", "again")[0] == 1
    assert call("forget", kept)[0] == 2


@pytest.mark.parametrize("folder", ["", "memory store"])
def test_forget_gives_the_line_for_gits_history(tmp_path, call, folder):
    repo = Repo.begin(tmp_path / "repo", folder)
    path = add(repo.root)
    repo.commit()
    _, out, _ = call("forget", path, "--reason", "private", "--json", store=repo.root)
    answer = json.loads(out)
    where = f"'{folder}/{path}'" if folder else path
    assert answer["git_command"] == f"git filter-repo --invert-paths --path {where}"
    assert answer["index_purged"] is True
    other = add(repo.root, "never committed")
    assert "filter-repo" not in call("forget", other, "--reason", "private", store=repo.root)[1]


def test_forget_beside_a_held_index_says_what_is_left(root, call, monkeypatch):
    from cyberos.core.errors import VaultLocked

    path = add(root)

    def held(*_, **__):
        raise VaultLocked("lock", 1, "pid 7")

    monkeypatch.setattr(sync, "purge", held)
    code, _, err = call("forget", path, "--reason", "private")
    assert code == 0
    assert "pid 7" in err


# --- audit, index, config -------------------------------------------------------------------------------------------


def test_audit_show_is_newest_first(root, call):
    add(root)
    _, out, _ = call("audit", "show", "--json")
    assert [row["seq"] for row in json.loads(out)["items"]] == [3, 2, 1]
    _, out, _ = call("audit", "show", "--limit", "1")
    assert len(out.splitlines()) == 1
    assert "episode.logged" in out


def test_audit_verify_names_vault_rows_and_heads(root, call):
    add(root)
    found = ledger.scan(root)
    code, out, err = call("audit", "verify")
    assert (code, err) == (0, "")
    assert found.vault in out
    assert "3 rows" in out
    assert found.heads[0]["hash"] in out
    _, out, _ = call("audit", "verify", "--json")
    document = json.loads(out)
    assert document["heads"] == [{"hash": found.heads[0]["hash"], "seq": 3}]
    assert (document["vault"], document["rows"], document["findings"]) == (found.vault, 3, [])


def test_audit_verify_refuses_a_damaged_ledger_whatever_the_files_say(root, call):
    path = add(root)
    (root / path).write_text("not the ledger's business")
    assert call("audit", "verify")[0] == 0
    segment = max(root.glob("audit/*/*/*.jsonl"), key=lambda file: file.stat().st_mtime_ns)
    segment.write_bytes(segment.read_bytes().replace(b"success", b"failure"))
    code, _, err = call("audit", "verify")
    assert code == 1
    assert "ledger-hash" in err
    assert call("audit", "verify", "--json")[0] == 1


def test_audit_ack_gap(repo: Repo, call):
    assert "no row is missing" in call("audit", "ack-gap", "--reason", "x", store=repo.root)[1]
    repo.branch("side")
    repo.log("lost")
    repo.commit()
    repo.log("picked")
    picked = repo.commit()
    repo.switch("main")
    repo.git("cherry-pick", picked)
    code, _, err = call("audit", "verify", store=repo.root)
    assert code == 0
    assert "ledger-gap" in err
    _, out, _ = call("audit", "ack-gap", "--reason", "dropped on purpose", "--json", store=repo.root)
    assert len(json.loads(out)["acknowledged"]) == 1
    assert call("audit", "verify", store=repo.root)[2] == ""


def test_audit_adopt(root, call, tmp_path):
    from cyberos.core.vault import init

    add(root)
    other = init(tmp_path / "other").root
    theirs = add(other)
    for folder in ("audit", "memories"):
        shutil.copytree(other / folder, root / folder, dirs_exist_ok=True)
    code, _, err = call("audit", "verify")
    assert code == 1
    assert "ledger-foreign-vault" in err
    assert theirs not in call("list")[1]
    assert call("audit", "adopt", "not-an-id")[0] == 2
    assert call("audit", "adopt", ledger.scan(other).vault)[0] == 0
    assert call("audit", "verify")[0] == 0
    assert theirs in call("list")[1]


def test_index_brings_up_to_date_and_rebuilds(root, call):
    add(root)
    lost = add_fact(root)
    empty_stage(root)
    (root / lost).unlink()
    code, out, err = call("index", "--json")
    assert code == 0
    assert json.loads(out) == {
        "engine": "whoosh",
        "embedder": None,
        "documents": 1,
        "unseen": 1,
        "rebuilt": False,
        "degraded": None,
    }
    assert lost in err
    (root / ".cyberos/index/catalog.sqlite").write_bytes(b"damaged")
    code, out, _ = call("index", "--rebuild")
    assert (code, out) == (0, "1 memory indexed by whoosh\n")


@pytest.mark.parametrize(
    ("held", "arguments"), [(sync.LOCK, ()), (sync.LOCK, ("--rebuild",)), (meaning.LOCK, ()), (meaning.LOCK, ("--rebuild",))]
)  # fmt: skip
def test_index_waits_as_the_settings_say_for_another_and_then_is_exit_75(root, monkeypatch, held, arguments):
    add(root)
    (root / ".cyberos/index").mkdir()
    monkeypatch.setenv("CYBEROS_EMBEDDER", "hash")
    monkeypatch.setenv("CYBEROS_LOCK_WAIT", "0.25")
    with lock(str(root / held), 1):
        done = subprocess.run(
            [sys.executable, "-m", "cyberos", "--store", str(root), "index", *arguments], capture_output=True, text=True
        )
    assert done.returncode == 75
    assert f"is held by pid {os.getpid()}" in done.stderr or "by another process" in done.stderr
    assert "waited 0.25 s" in done.stderr or "waited 0.2 s" in done.stderr


def test_index_that_cannot_be_written_is_exit_1(root, call, tmp_path):
    add(root)
    (root / ".cyberos/index").symlink_to(tmp_path)
    code, _, err = call("index")
    assert code == 1
    assert "memory" in err
    assert call("index", "--rebuild")[0] == 1
    code, _, err = call("forget", add(root), "--reason", "private")
    assert code == 0
    assert "still holds" in err
    assert list(tmp_path.glob("lock")) == []


def test_index_on_a_full_disk_is_exit_1(call, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(sync, "rebuild", full)
    code, _, err = call("index", "--rebuild")
    assert code == 1
    assert "No space left" in err


def test_config_names_every_setting_and_its_source(root, call, monkeypatch):
    from cyberos.core.settings import SETTINGS

    (root / "cyberos.toml").write_text("min_relevance = 0.5\n")
    monkeypatch.setenv("CYBEROS_RECENCY", "park")
    items = {item["name"]: item for item in json.loads(call("config", "--json")[1])["items"]}
    assert list(items) == list(SETTINGS)
    assert (items["min_relevance"]["value"], items["min_relevance"]["source"]) == (0.5, "cyberos.toml")
    assert (items["recency"]["value"], items["recency"]["source"]) == ("park", "CYBEROS_RECENCY")
    assert items["actor"]["source"] == "default"
    code, out, _ = call("config")
    assert code == 0
    assert "CYBEROS_RECENCY" in out
    (root / "cyberos.toml").write_text("min_relevance = 7\n")
    assert call("config")[0] == 1


@pytest.mark.parametrize(
    "verb", [("list",), ("index",), ("config",), ("audit", "verify"), ("read", "memories/facts/aa/bb/x.md")]
)
def test_no_vault_is_exit_2(call, tmp_path, verb):
    (tmp_path / "empty").mkdir()
    code, out, err = call(*verb, store=tmp_path / "empty")
    assert (code, out) == (2, "")
    assert "cyberos init" in err
