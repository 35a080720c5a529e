#!/usr/bin/env bash
# The path of one ray through a distributed ray tracer: its log's rays as a table beside it, and of that the ray's lines by time.
logs=$1/host1/logs
head -n 1 "$logs/001.INFO" | cut -c 7- >"$logs/rays.csv"
cat "$logs"/*.INFO | grep '\[RAY\]' | grep -v pathID | cut -c 7- >>"$logs/rays.csv"
head -n 1 "$logs/rays.csv"
cat "$logs/rays.csv" | grep '^590432,' | sort -t, -k2,2n | head -n 20
