#!/usr/bin/env bash
# A commit in a large repository: what changed, everything that changed, done.
cd "$1/host1/repository" || exit
git status --short
git add .
git commit -q -m "A change here and there"
git status --short
git log -1 --format='%T %s'
