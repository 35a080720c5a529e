#!/usr/bin/env bash
# What a web server could not give to one browser.
grep -cE '" (404|5[0-9]{2}) .*Chrome' "$1/host1/logs/access.log"
