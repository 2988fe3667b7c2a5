#!/usr/bin/env bash
# The whole of cyberos in a minute, in a throw-away git repository. Run it with `make demo`.
set -euo pipefail
corpus="$(cd "$(dirname "$0")/.." && pwd)/tests/fixtures/episode_corpus.jsonl"
work="$(mktemp -d)"
trap 'rm -rf "$work"' EXIT
cd "$work"
export GIT_AUTHOR_NAME=demo GIT_AUTHOR_EMAIL=demo@localhost GIT_COMMITTER_NAME=demo GIT_COMMITTER_EMAIL=demo@localhost
export GIT_CONFIG_GLOBAL=/dev/null
unset CYBEROS_STORE

if [ -t 1 ] && [ -z "${NO_COLOR:-}" ]; then bold=$'\e[1m' dim=$'\e[2m' off=$'\e[0m'; else bold='' dim='' off=''; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$off"; }
run() { printf '%s$ %s%s\n' "$dim" "$(quote "$@")" "$off"; "$@"; }
quote() { local word line=''; for word; do case $word in *[!A-Za-z0-9_./=:-]*) line+=" '$word'" ;; *) line+=" $word" ;; esac; done; printf '%s' "${line# }"; }
refused() { if run "$@"; then echo "the tampering was NOT seen"; exit 1; else printf '%s  exit code %s%s\n' "$dim" "$?" "$off"; fi; }

say "1. A vault in a git repository"
git init --quiet --initial-branch=main .
git commit --quiet --allow-empty --message 'a project'
run cyberos init
run git add .
run git commit --quiet --message 'begin a vault'

say "2. Import what agents did before"
run cyberos episode log --from-json "$corpus"
git add . && git commit --quiet --message 'import'

say "3. A task ends: log it, with the evidence"
run cyberos episode log \
  --task 'Stop the nightly backup job from filling the disk' \
  --approach 'rotate dumps with a retention of 7 days; alert at 80 %' \
  --outcome success --duration-ms 1260000 --evidence exit_code --evidence-ref 'systemctl start backup -> exit 0' \
  --lesson 'the old dumps were kept by a hard link in /var/spool; delete the link as well'

say "4. Before the next task: have I done this before, and how did it really go?"
run cyberos index
run cyberos recall-similar 'backup fills up the disk every night'

say "   By meaning too: what is found shares no word with the question"
run cyberos recall-similar --k 1 'swap credentials that leaked'

say "5. Two agents log on two branches; git merges them"
git add . && git commit --quiet --message 'one more'
git switch --quiet --create agent-two
run cyberos episode log --task 'Bump the base image to Debian 13' --approach 'rebuild, run the smoke test' \
  --outcome failure --error 'libssl3 not found by the healthcheck binary' --duration-ms 480000 --actor agent-two
git add . && git commit --quiet --message 'agent two'
git switch --quiet main
run cyberos episode log --task 'Rename the metrics prefix' --approach 'codemod and a recording rule' \
  --outcome partial --error 'two dashboards still use the old name' --duration-ms 300000 --actor agent-one
git add . && git commit --quiet --message 'agent one'
run git merge --quiet --no-edit agent-two
run cyberos audit verify
run cyberos doctor
run cyberos episode log --task 'Write the release notes' --approach 'from the merged titles' \
  --outcome success --duration-ms 600000
say "   The next write has joined the two heads:"
run cyberos audit verify
git add . && git commit --quiet --message 'after the merge'

say "6. Somebody turns a failure into a success"
file="$(grep --recursive --files-with-matches 'libssl3 not found' memories)"
run sed -i.bak -e 's/"outcome": "failure"/"outcome": "success"/' "$file"
rm -f "$file.bak"
refused cyberos doctor
run git checkout --quiet -- memories

say "7. ... or deletes a row of the ledger"
segment="$(find audit -name '*.jsonl' -size +1k | sort | head -n 1)"
run sed -i.bak -e 2d "$segment"
rm -f "$segment.bak"
refused cyberos doctor
run git checkout --quiet -- audit
run cyberos doctor

say "8. ... and the hook says so before there is such a commit"
printf '#!/bin/sh\nexec cyberos doctor --staged\n' >.git/hooks/pre-commit
chmod +x .git/hooks/pre-commit
run cat .git/hooks/pre-commit
run rm "$file"
refused git commit --quiet --all --message 'tidy up'
run git checkout --quiet HEAD -- memories
run cyberos episode log --task 'Write the announcement' --approach 'from the release notes' \
  --outcome success --duration-ms 240000
run git add memories audit
run git commit --quiet --message 'announced'

say "That is all: markdown you can grep, history that merges, and a doctor that says no."
