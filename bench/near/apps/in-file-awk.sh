#!/usr/bin/env bash
# How many bytes a web server sent.
awk '{ sum += $10 } END { print sum }' "$1/host1/logs/access.log"
