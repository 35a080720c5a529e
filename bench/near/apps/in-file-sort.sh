#!/usr/bin/env bash
# A web server's requests by time and client.
sort -k4,4 -k1,1 "$1/host1/logs/access.log" | head -n 100000 | sha256sum
