"""Our vault as `agent-memory-integrity` asks for it: its nine attacks, made by one who knows the format.

Whatever is edited, every row from there on is hashed and linked anew, segments are renamed and digests fitted, so that
nothing within the files disagrees. The first context is one vault, the second another. T9 puts an older copy of the
whole repository back, git and all. The judge is `cyberos doctor`, and a checkpoint that was taken after the last write
and kept elsewhere; `verify_detail` says which of them saw it.
"""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from hashlib import sha256
from pathlib import Path
from unittest import mock

from agmi.adapters.base import MemoryAdapter, Record

from cyberos.core import checkpoint, ledger
from cyberos.core.episode import log
from cyberos.core.rows import format_row
from cyberos.core.writer import Writer
from cyberos.doctor.examination import examine
from support import Repo, episode


class CyberosAdapter(MemoryAdapter):
    name = "cyberos"
    supports_replay = supports_metadata = supports_snapshot = True

    def setup(self):
        self.top = Path(tempfile.mkdtemp(prefix="agmi-"))
        self.repo = Repo.begin(self.top / "first")
        with mock.patch.dict(os.environ, GIT_COMMITTER_DATE="2020-01-01T00:00:00Z"):  # so its first commit is another
            self.other = Repo.begin(self.top / "second")
        self.kept = None

    def teardown(self):
        shutil.rmtree(self.top, ignore_errors=True)

    def seed(self, n):
        for number in range(n):
            self._log(f"task {number}")

    def seed_other(self, n):
        for number in range(n):
            log(Writer(self.other.root), episode(f"another's task {number}"))
            self.other.commit()

    def append_genuine(self):
        self._log("one more")

    def _log(self, task):
        log(Writer(self.repo.root), episode(task))
        self.repo.commit()
        self.kept = checkpoint.format_checkpoint(checkpoint.checkpoint_of(ledger.scan(self.repo.root)))

    # the files, past cyberos

    @staticmethod
    def _rows(root):
        """Give the rows of a vault in order, each with its segment's file."""
        made = [
            (json.loads(line), file)
            for file in root.glob("audit/*/*/*.jsonl")
            for line in file.read_bytes().splitlines()
        ]
        return sorted(made, key=lambda one: one[0]["seq"])

    def _records(self, root):
        rows = [row for row, _ in self._rows(root)]
        return [
            Record(place, {"id": put["payload"]["path"], "text": (root / put["payload"]["path"]).read_text(), "actor": put["actor"], "vault": put["vault"]})
            for place, put in enumerate(row for row in rows if row["kind"] == "put")
        ]  # fmt: skip

    def read_all_raw(self):
        return self._records(self.repo.root)

    def read_other_raw(self):
        return self._records(self.other.root)

    def _relink(self, rows):
        """Write rows back as one chain that agrees with itself."""
        for file in self.repo.root.glob("audit/*/*/*.jsonl"):
            file.unlink()
        made, before = {}, None
        for seq, (row, file) in enumerate(rows, 1):
            row |= {"seq": seq, "prev": [before] if before else []}
            line = format_row(row)
            before = line[-66:-2].decode()
            made.setdefault(file, []).append(line)
        for file, lines in made.items():
            named = file.with_name(f"{lines[0][-66:-2].decode()[:16]}.jsonl")
            named.write_bytes(b"".join(line + b"\n" for line in lines))

    def _pair(self, rows, seq):
        """Give the places of the two rows of an episode."""
        first = [place for place, (row, _) in enumerate(rows) if row["kind"] == "put"][seq]
        return first, first + 1

    def write_raw(self, record):
        rows = self._rows(self.repo.root)
        puts = [row for row, _ in rows if row["kind"] == "put"]
        blob = record.fields["text"].encode()
        if record.seq >= len(puts):
            path = record.fields["id"].replace(".md", "0.md")
            for place in self._pair(rows, len(puts) - 1):
                row, file = json.loads(json.dumps(rows[place][0])), rows[place][1]
                row["payload"]["path"] = path
                rows.append((row, file))
        else:
            path = puts[record.seq]["payload"]["path"]
        for place in self._pair(rows, record.seq):
            row = rows[place][0]
            row["actor"] = record.fields["actor"]
            if row["kind"] == "put":
                row["payload"] |= {"sha256": sha256(blob).hexdigest(), "size": len(blob)}
        (self.repo.root / path).write_bytes(blob)
        self._relink(rows)

    def delete_raw(self, seq):
        rows = self._rows(self.repo.root)
        first, second = self._pair(rows, seq)
        (self.repo.root / rows[first][0]["payload"]["path"]).unlink()
        self._relink([one for place, one in enumerate(rows) if place not in {first, second}])

    def mutate_payload(self, record):
        record.fields["text"] = record.fields["text"].replace("wrote it", "did nothing")
        return record

    def forge_record(self, template):
        forged = Record(template.seq + 1, dict(template.fields))
        return self.mutate_payload(forged)

    def replay_onto(self, victim_seq, donor):
        victim = self.read_all_raw()[victim_seq]
        self.write_raw(Record(victim_seq, {**victim.fields, "text": donor.fields["text"]}))

    def read_meta(self, seq):
        return {"actor": self.read_all_raw()[seq].fields["actor"]}

    def write_meta(self, seq, meta):
        record = self.read_all_raw()[seq]
        record.fields["actor"] = "eve"
        self.write_raw(record)

    def snapshot_store(self):
        return self._copy_store(self.repo.root)

    def restore_store(self, token):
        self._restore_store(token, self.repo.root)

    # the guard's questions

    def identity_of(self, record):
        return record.fields["id"]

    def payload_of(self, record):
        return record.fields["text"]

    def owner_of(self, record):
        return record.fields["vault"]

    # the judge

    def reload(self):
        pass

    def verify(self):
        self.verify_detail = None
        found = {one.rule for one in examine(self.repo.root, anchor="auto").findings if one.severity == "error"}
        if found:
            self.verify_detail = f"doctor: {', '.join(sorted(found))}"
            return False
        today = ledger.scan(self.repo.root)
        kept = checkpoint.parse_note(self.kept).checkpoint
        reason = checkpoint.broken(kept, today)
        if not reason and checkpoint.checkpoint_of(today) != kept:
            reason = f"{len(today.rows) - kept.rows} rows that nobody wrote who keeps the checkpoint"
        self.verify_detail = f"checkpoint: {reason}" if reason else None
        return not reason
